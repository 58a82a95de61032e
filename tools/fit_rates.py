#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fit the constants of machine descriptions that no run measured one by one.

GCN training (docs/machines.md says how) was timed on a GeForce RTX 5090 in a published study and
on an H200, with a caching allocator ("native") and with one cudaMalloc a tensor ("malloc"). From
the bytes and operations of an epoch this finds

  - the RTX 5090's sustained memory rate: one, for streams and for random rows alike, since the
    times do not tell the two apart;
  - the H200's rate for random rows, from one slice's gather and scatter-add in plain kernels;
  - what cudaMalloc and cudaFree cost together for each 2 MiB, on both.

The model is the simulator's: a kernel takes the larger of its memory time and its operations'
time, but at least launch_ns; kernels follow each other without gaps. cudaMalloc runs beside queued
kernels, cudaFree waits for them. What is left out: caches, gaps between kernels, and what a
framework runs beside the kernels counted here. The fit absorbs these, which is why the results are
called fitted.

usage: fit_rates.py           print each fit with its residuals
       fit_rates.py --check   also compare with machines/*.json; exit 1 if one is off by over 0.5 %
"""

import json
import pathlib
import sys

GB = 1e9
MIB2 = 2 * 1024 * 1024

# Seconds an epoch, by million nodes.
RTX5090_NATIVE = {1: 0.22, 3: 0.68, 5: 1.14}
RTX5090_MALLOC = {1: 0.35, 3: 1.04, 5: 1.89}
H200_NATIVE = {1: 0.152, 5: 0.754}
H200_MALLOC = {1: 0.237, 5: 1.105}

# One slice of 2M rows of 1 KiB on the H200, plain kernels, all of it in HBM, seconds.
H200_GATHER_S = 1.00e-3
H200_SCATTER_S = 1.77e-3
H200_STREAM = 4.55e12

# Assumed, because the times above hardly depend on them; the residuals show how little.
RTX5090_OPS = 60e12
H200_OPS = 50e12
LAUNCH_S = 2e-6
MALLOC_S = 20e-6

FEATURES, HIDDEN, CLASSES = 128, 256, 10
ENTRIES_A_NODE = 21
SLICE = 2_000_000
SECTOR = 32


def slices(nodes):
    """Lengths of the slices of one aggregation."""
    left = ENTRIES_A_NODE * nodes
    while left:
        yield min(left, SLICE)
        left -= min(left, SLICE)


def random_bytes(piece):
    """Bytes of the sectors that a random piece covers on average, as src/cost/cost.h has it."""
    return piece + SECTOR - min(piece & -piece, SECTOR)


# An epoch is a sequence of events: a kernel, or an allocation or a free of so many bytes.


def kernel(stream_bytes, random=0, ops=0):
    return ("kernel", stream_bytes, random, ops)


def alloc(*sizes):
    return [("alloc", size) for size in sizes]


def free(*sizes):
    return [("free", size) for size in sizes]


def aggregation(nodes, width):
    """The target is allocated by the caller."""
    row = 4 * width
    yield kernel(nodes * row)  # target = 0
    for entries in slices(nodes):
        yield from alloc(entries * row)
        yield kernel(entries * (row + 8), entries * random_bytes(row))  # gather
        yield from alloc(entries * row)
        yield kernel(entries * (2 * row + 4))  # scale
        yield kernel(entries * (row + 8), entries * 2 * random_bytes(row))  # scatter-add
        yield from free(entries * row, entries * row)


def epoch(nodes):
    x, h, c = 4 * FEATURES * nodes, 4 * HIDDEN * nodes, 4 * CLASSES * nodes
    mask = HIDDEN * nodes
    ops1 = 2 * nodes * FEATURES * HIDDEN
    ops2 = 2 * nodes * HIDDEN * CLASSES
    yield from alloc(h)
    yield kernel(x + h, 0, ops1)  # first linear
    yield from alloc(h)
    yield from aggregation(nodes, HIDDEN)
    yield from free(h) + alloc(h)
    yield kernel(2 * h)  # ReLU
    yield from free(h) + alloc(h, mask)
    yield kernel(2 * h + mask)  # dropout
    yield from alloc(c)
    yield kernel(h + c, 0, ops2)  # second linear
    yield from alloc(c)
    yield from aggregation(nodes, CLASSES)
    yield from free(c) + alloc(c // 10, c // 10)
    yield kernel(4 * c // 10)  # loss over the training rows
    yield from alloc(c)
    yield kernel(c)  # its gradient
    yield from free(c // 10, c // 10, c) + alloc(c)
    yield from aggregation(nodes, CLASSES)
    yield kernel(h + c, 0, ops2)  # second weight gradient
    yield from alloc(h)
    yield kernel(h + c, 0, ops2)  # gradient of the dropout's output
    yield from free(h, c, c) + alloc(h)
    yield kernel(2 * h + mask)  # dropout, backward
    yield from free(h, mask) + alloc(h)
    yield kernel(3 * h)  # ReLU, backward
    yield from free(h, h) + alloc(h)
    yield from aggregation(nodes, HIDDEN)
    yield from free(h)
    yield kernel(x + h, 0, ops1)  # first weight gradient
    yield from free(h)


def epoch_s(nodes, rate, ops, malloc_2mib=None):
    """Seconds of an epoch; malloc_2mib None: allocating costs nothing, as with a cache.

    Half of the cost is cudaMalloc's and runs beside the kernels queued before; half is cudaFree's,
    which waits for them first. The host is ahead of the device otherwise.
    """
    host = device = 0.0
    for what, *of in epoch(nodes):
        if what == "kernel":
            time = max((of[0] + of[1]) / rate, of[2] / ops, LAUNCH_S)
            device = max(host, device) + time
        elif malloc_2mib is not None:
            if what == "free":
                host = max(host, device)
            host += (MALLOC_S + -(-of[0] // MIB2) * malloc_2mib) / 2
    return max(host, device)


def bisect(function, low, high):
    """The zero of an increasing function."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def fit(model, times, low, high):
    """The parameter with which a decreasing model's relative errors add up to zero."""
    return bisect(lambda p: sum(1 - model(m * 10**6, p) / t for m, t in times.items()), low, high)


def fit_memory_rate(times, ops):
    return fit(lambda nodes, rate: epoch_s(nodes, rate, ops), times, 1e11, 1e14)


def residual(what, model, measured):
    error = 100 * (model / measured - 1)
    print(f"  {what:28} {model:10.4g} s, was {measured:7.4g} s: {error:+5.1f} %")


def report_memory_rate():
    rate = float(f"{fit_memory_rate(RTX5090_NATIVE, RTX5090_OPS):.4g}")
    print(f"RTX 5090: hbm_bytes_per_s = hbm_random_bytes_per_s = {rate:.4g}"
          f" ({100 * rate / 1.792e12:.0f} % of the nominal 1.792e12)")
    for millions, measured in RTX5090_NATIVE.items():
        kernels = [event[1:] for event in epoch(millions * 10**6) if event[0] == "kernel"]
        residual(f"native {millions}M", epoch_s(millions * 10**6, rate, RTX5090_OPS), measured)
        print(f"    {sum(k[0] for k in kernels) / GB:.1f} GB streamed,"
              f" {sum(k[1] for k in kernels) / GB:.1f} GB at random, {len(kernels)} kernels")
    for ops in (RTX5090_OPS / 2, RTX5090_OPS * 1.7):
        print(f"  at {ops:.3g} operations/s the rate would be"
              f" {fit_memory_rate(RTX5090_NATIVE, ops):.4g}")
    return rate


def report_random_rate():
    row = 4 * HIDDEN
    gather = (SLICE * (row + 8) / H200_STREAM, SLICE * row)
    scatter = (SLICE * (row + 8) / H200_STREAM, SLICE * 2 * row)
    rate = (gather[1] + scatter[1]) / (H200_GATHER_S + H200_SCATTER_S - gather[0] - scatter[0])
    rate = float(f"{rate:.3g}")
    print(f"H200: hbm_random_bytes_per_s = {rate:.3g}")
    residual("gather of one slice", gather[0] + gather[1] / rate, H200_GATHER_S)
    residual("scatter-add of one slice", scatter[0] + scatter[1] / rate, H200_SCATTER_S)
    return rate


def report_malloc(name, rate, ops, malloc):
    """rate: with which the model meets the same program's times with a caching allocator."""
    cost = -fit(lambda nodes, negative: epoch_s(nodes, rate, ops, -negative), malloc, -1e-4, 0)
    cost = round(1e9 * cost, -1) / 1e9
    print(f"{name}: malloc_2mib_ns = {1e9 * cost:.0f}, given malloc_ns = {1e9 * MALLOC_S:.0f}")
    for millions, measured in malloc.items():
        nodes = millions * 10**6
        sizes = [event[1] for event in epoch(nodes) if event[0] == "alloc"]
        residual(f"malloc {millions}M", epoch_s(nodes, rate, ops, cost), measured)
        pieces = sum(-(-size // MIB2) for size in sizes)
        print(f"    {len(sizes)} tensors, {pieces} pieces of 2 MiB,"
              f" {epoch_s(nodes, rate, ops):.4g} s without their cost")
    return cost


def check(expected):
    """Compare with the descriptions; returns how many constants are off."""
    machines = pathlib.Path(__file__).resolve().parent.parent / "machines"
    bad = 0
    for name, constants in expected.items():
        devices = json.loads((machines / f"{name}.json").read_text(encoding="utf-8"))["device"]
        for i, device in enumerate(devices):
            for key, value in constants.items():
                found = device[key]["value"]
                if abs(found / value - 1) > 0.005:
                    print(f"{name}.json: device[{i}].{key}: is {found}, the fit says {value}",
                          file=sys.stderr)
                    bad += 1
    return bad


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    rate = report_memory_rate()
    rtx5090 = {
        "hbm_bytes_per_s": rate,
        "hbm_random_bytes_per_s": rate,
        "ops_per_s": RTX5090_OPS,
        "launch_ns": 1e9 * LAUNCH_S,
        "malloc_ns": 1e9 * MALLOC_S,
        "malloc_2mib_ns": 1e9 * report_malloc("RTX 5090", rate, RTX5090_OPS, RTX5090_MALLOC),
    }
    # What PyTorch reaches on an H200, which only serves to tell its kernels from its allocations.
    pytorch = fit_memory_rate(H200_NATIVE, H200_OPS)
    h200 = {
        "hbm_bytes_per_s": H200_STREAM,
        "hbm_random_bytes_per_s": report_random_rate(),
        "ops_per_s": H200_OPS,
        "malloc_ns": 1e9 * MALLOC_S,
        "malloc_2mib_ns": 1e9 * report_malloc("H200", pytorch, H200_OPS, H200_MALLOC),
    }
    if sys.argv[1:]:
        return 1 if check({"rtx5090": rtx5090, "h200": h200}) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
