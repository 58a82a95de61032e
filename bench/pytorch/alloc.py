#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's caching allocator takes for the sequences of `bench_chunks --write`.

Its functions for raw memory are called, not tensors, but from Python: some hundred nanoseconds of
each call are the interpreter's. One JSON object a line, times in nanoseconds of the host. Needs
PyTorch with CUDA.
"""

import argparse
import json
import time

import torch

PAIRS, SAMPLES = 16, 2000
SIZES = (4096, 65536, 98304, 2 << 20, 48 << 20, 1 << 30)


def read(path):
    """A sequence: (id, bytes), 0 bytes to free."""
    with open(path, encoding="ascii") as file:
        for line in file:
            word = line.split()
            yield int(word[1]), int(word[2]) if word[0] == "+" else 0


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


def replay(path):
    get, put = torch._C._cuda_cudaCachingAllocator_raw_alloc, \
        torch._C._cuda_cudaCachingAllocator_raw_delete
    sequence, live = list(read(path)), {}
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter_ns()
    for number, size in sequence:
        if size:
            live[number] = get(size, 0)
        else:
            put(live.pop(number))
    ns = time.perf_counter_ns() - begin
    for address in live.values():
        put(address)
    return {"test": path, "allocator": "pytorch", "operations": len(sequence),
            "mean_ns": ns / len(sequence), "peak_held_bytes": torch.cuda.max_memory_reserved(),
            "peak_allocated_bytes": torch.cuda.max_memory_allocated()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sequence", nargs="*", help="a file of bench_chunks --write")
    options = parser.parse_args()
    torch.cuda.init()
    common = {"schema": "weir-bench-alloc-1", "pytorch": torch.__version__}
    for size in SIZES:
        print(json.dumps(common | measure_hit(size)), flush=True)
    for path in options.sequence:
        print(json.dumps(common | replay(path)), flush=True)


if __name__ == "__main__":
    main()
