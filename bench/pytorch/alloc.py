#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's caching allocator takes for what `bench_chunks` measures of weir's.

Its functions for raw memory are called, not tensors, but from Python: some hundred nanoseconds of
each call are the interpreter's. One JSON object a line, times in nanoseconds of the host. Needs
PyTorch with CUDA.
"""

import json
import time

import torch

PAIRS, SAMPLES = 16, 2000
SIZES = (4096, 65536, 98304, 2 << 20)


def measure_hit(size):
    get, put = torch._C._cuda_cudaCachingAllocator_raw_alloc, \
        torch._C._cuda_cudaCachingAllocator_raw_delete
    others = [get(size, 0) for _ in range(8)]
    samples = []
    for _ in range(SAMPLES):
        begin = time.perf_counter_ns()
        for _ in range(PAIRS):
            put(get(size, 0))
        samples.append((time.perf_counter_ns() - begin) / PAIRS)
    for other in others:
        put(other)
    samples.sort()
    return {"test": "hit", "allocator": "pytorch", "bytes": size, "samples": SAMPLES,
            "pair_ns": {"min": samples[0], "median": samples[SAMPLES // 2],
                        "p99": samples[SAMPLES - 1 - SAMPLES // 100]}}


def main():
    torch.cuda.init()
    common = {"schema": "weir-bench-alloc-1", "pytorch": torch.__version__}
    for size in SIZES:
        print(json.dumps(common | measure_hit(size)), flush=True)


if __name__ == "__main__":
    main()
