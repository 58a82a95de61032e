#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GCN training of `weir bench gcn` in PyTorch, as a judge of weir's own kernels and managers.

The same work on the same sizes: a two-layer graph convolutional network on a random graph, trained
full-batch, aggregation in slices of gather, scale and scatter-add; docs/gcn.md defines it. The
random numbers are PyTorch's own, so losses are near weir's, not equal to them: with random labels
both stay near ln 10.

Managers, as they are named in the results:

  pytorch         PyTorch's caching allocator
  pytorch+malloc  one cudaMalloc and cudaFree a tensor (PYTORCH_NO_CUDA_MEMORY_CACHING=1)

What PyTorch itself has against too little memory is asked for by options, and added to that name:

  +save-on-cpu    what the backward pass needs lies in pinned host memory until then
  +checkpoint     what lies within a layer is not kept but computed again

--gpu-budget bounds what PyTorch's allocator takes of the GPU, so that these can be measured on less
memory than the card has. Under each of them the training does the same, and its losses are those of
the plain run, as far as PyTorch's kernels are deterministic.

One JSON object a line on standard output, in the format of weir's results; what differs is in
docs/results.md. Needs PyTorch with CUDA, and nothing else.
"""

import argparse
import contextlib
import json
import math
import os
import re
import sys
import time

FEATURES, HIDDEN, CLASSES, DEGREE = 128, 256, 10, 10
LEARNING_RATE, WEIGHT_DECAY = 0.01, 5e-4
MANAGERS = ("pytorch", "pytorch+malloc")
SUFFIX = {"": 1, "k": 1_000, "M": 1_000_000}
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
NODES_MIN, NODES_MAX = 10, 100_000_000


def count(text):
    """A count as weir writes it: 20k, 5M."""
    match = re.fullmatch(r"([0-9]+)([kM]?)", text)
    nr = int(match[1]) * SUFFIX[match[2]] if match else 0
    if nr < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no count: write 20000, 20k or 5M")
    return nr


def size(text):
    """Bytes as weir writes them: 20GB, 512MiB."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", text)
    unit = UNITS.get(match[2]) if match else None
    if not unit or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 20GB or 512MiB")
    return round(float(match[1]) * unit)


def nodes_list(text):
    sizes = [count(part) for part in text.split(",")]
    for nr in sizes:
        if not NODES_MIN <= nr <= NODES_MAX:
            raise argparse.ArgumentTypeError(
                f"{nr} nodes are out of range: take {NODES_MIN} to {NODES_MAX}")
    return sizes


def like(name):
    """What ties a result to those of a file: of its first one."""
    try:
        with open(name, encoding="utf-8") as file:
            first = json.loads(file.readline())
        parameters = first["parameters"]
        return {"device": parameters["device"],
                "host_budget_bytes": parameters["host_budget_bytes"],
                "machine": first["machine"], "budget_bytes": first["budget_bytes"],
                "version": first["version"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise argparse.ArgumentTypeError(
            f"'{name}' has no results of weir bench --json: {error}") from error


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=nodes_list, default=[1_000_000], metavar="N,N...",
                        help="numbers of nodes (default 1M)")
    parser.add_argument("--manager", choices=MANAGERS, default=MANAGERS[0],
                        help="how memory is held (default pytorch)")
    parser.add_argument("--epochs", type=count, default=2, help="measured epochs (default 2)")
    parser.add_argument("--warm-up", type=count, default=2, help="epochs before them (default 2)")
    parser.add_argument("--slice", type=count, default=2_000_000,
                        help="entries of a slice (default 2M)")
    parser.add_argument("--seed", type=int, default=2025, help="of the data (default 2025)")
    parser.add_argument("--like", type=like, default={}, metavar="FILE",
                        help="results of weir bench on this GPU: bear their machine, budgets and "
                             "version, so that weir report shows both together")
    parser.add_argument("--save-on-cpu", action="store_true",
                        help="keep what the backward pass needs in pinned host memory")
    parser.add_argument("--checkpoint", action="store_true",
                        help="compute each layer again in the backward pass")
    parser.add_argument("--gpu-budget", type=size, metavar="S",
                        help="what PyTorch's allocator may take of the GPU: bytes (20GB, 512MiB); "
                             "default all of it")
    parser.add_argument("--cpu", action="store_true",
                        help="on the CPU: to try the program, not to measure anything")
    args = parser.parse_args()
    if args.gpu_budget and (args.cpu or args.manager != "pytorch"):
        parser.error("--gpu-budget bounds PyTorch's allocator on a GPU: not with --cpu, and with "
                     "--manager pytorch alone")
    return args


def load_torch(args):
    """Import PyTorch; its allocator is chosen by the environment, before."""
    os.environ.pop("PYTORCH_NO_CUDA_MEMORY_CACHING", None)
    if args.manager == "pytorch+malloc":
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    try:
        import torch
        import torch.utils.checkpoint  # not a part of torch until it is imported
    except ImportError:
        sys.exit("gcn.py: PyTorch is not installed for this Python: install the package 'torch'")
    if not args.cpu and not torch.cuda.is_available():
        sys.exit("gcn.py: PyTorch finds no GPU: run it where one is, or try it with --cpu")
    # Single precision throughout, as weir's products of matrices.
    torch.backends.cuda.matmul.allow_tf32 = False
    if args.gpu_budget:
        bound_memory(torch, args.gpu_budget)
    return torch


def bound_memory(torch, budget):
    """PyTorch's allocator fails beyond it, after it has given back what it holds for reuse."""
    total = torch.cuda.get_device_properties(0).total_memory
    if budget > total:
        sys.exit(f"gcn.py: the GPU has {total} bytes: take a --gpu-budget of at most that")
    torch.cuda.set_per_process_memory_fraction(budget / total, 0)


def make_aggregate(torch):
    class Aggregate(torch.autograd.Function):
        """out[dst] += weight * h[src] over all entries, a slice at a time; backwards the ends
        change places. Temporaries are freed before the next slice takes its own."""

        @staticmethod
        def run(h, src, dst, weight, nr_slice):
            out = torch.zeros_like(h)
            for first in range(0, src.numel(), nr_slice):
                part = slice(first, first + nr_slice)
                rows = h.index_select(0, src[part])
                scaled = rows * weight[part].unsqueeze(1)
                out.index_add_(0, dst[part], scaled)
                del rows, scaled
            return out

        @staticmethod
        def forward(ctx, h, src, dst, weight, nr_slice):
            ctx.entries = src, dst, weight, nr_slice
            return Aggregate.run(h, src, dst, weight, nr_slice)

        @staticmethod
        def backward(ctx, grad_out):
            src, dst, weight, nr_slice = ctx.entries
            grad = Aggregate.run(grad_out.contiguous(), dst, src, weight, nr_slice)
            return grad, None, None, None, None

    return Aggregate.apply


class Data:
    """The random graph and what belongs to its nodes; all of it lives as long as the training."""

    def __init__(self, torch, nodes, seed, device):
        random = torch.Generator(device=device).manual_seed(seed)

        def integers(high, *shape):
            return torch.randint(high, shape, generator=random, device=device)

        self.x = torch.randn(nodes, FEATURES, generator=random, device=device)
        self.label = integers(CLASSES, nodes)
        self.train = torch.arange(nodes, device=device) < nodes // 10
        self.edge = integers(nodes, 2, DEGREE * nodes)
        loops = torch.arange(nodes, device=device)
        self.src = torch.cat([self.edge[0], self.edge[1], loops])
        self.dst = torch.cat([self.edge[1], self.edge[0], loops])
        degree = torch.bincount(self.dst, minlength=nodes).to(torch.float32)
        scale = degree.rsqrt_()
        self.weight = scale[self.src]
        self.weight *= scale[self.dst]


class Training:
    def __init__(self, torch, data, device, seed, nr_slice, *, save_on_cpu=False,
                 checkpoint=False):
        torch.manual_seed(seed)
        self.torch, self.data, self.nr_slice = torch, data, nr_slice
        self.save_on_cpu, self.checkpoint = save_on_cpu, checkpoint
        self.aggregate = make_aggregate(torch)
        self.first = torch.nn.Linear(FEATURES, HIDDEN).to(device)
        self.second = torch.nn.Linear(HIDDEN, CLASSES).to(device)
        self.optimizer = torch.optim.Adam(
            [*self.first.parameters(), *self.second.parameters()],
            lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def layer(self, linear, h):
        d = self.data
        return self.aggregate(linear(h), d.src, d.dst, d.weight, self.nr_slice)

    def hidden(self, linear, h):
        functional = self.torch.nn.functional
        h = functional.relu(self.layer(linear, h))
        return functional.dropout(h, 0.5, training=True)

    def call(self, function, *args):
        """One layer. Checkpointed, of all in it only what comes in is kept for the backward pass,
        which computes the rest again, with the same random numbers."""
        if not self.checkpoint:
            return function(*args)
        return self.torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)

    def forward(self):
        d = self.data
        h = self.call(self.hidden, self.first, d.x)
        out = self.call(self.layer, self.second, h)
        del h
        return self.torch.nn.functional.cross_entropy(out[d.train], d.label[d.train])

    def saving(self):
        """Where the forward pass leaves what the backward pass needs."""
        if not self.save_on_cpu:
            return contextlib.nullcontext()
        return self.torch.autograd.graph.save_on_cpu(pin_memory=True)

    def epoch(self):
        """One epoch. Returns the loss, still on the device."""
        self.optimizer.zero_grad()
        with self.saving():
            loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def synchronize(torch, device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def train(torch, nodes, args, device):
    """Measured epochs' times and all losses. Timed from an idle device to an idle device."""
    training = Training(torch, Data(torch, nodes, args.seed, device), device, args.seed, args.slice,
                        save_on_cpu=args.save_on_cpu, checkpoint=args.checkpoint)
    times, losses = [], []
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what making the data took
        torch.cuda.reset_peak_memory_stats(device)
    for epoch in range(args.warm_up + args.epochs):
        synchronize(torch, device)
        begin = time.perf_counter()
        loss = training.epoch()
        synchronize(torch, device)
        if epoch >= args.warm_up:
            times.append(time.perf_counter() - begin)
        losses.append(float(loss))
    return times, losses


def median(values):
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def peak_bytes(torch, args, device):
    """What the caching allocator took of the GPU; without it PyTorch does not count."""
    if device.type != "cuda" or args.manager != "pytorch":
        return None
    return torch.cuda.max_memory_reserved(device)


def budget_bytes(torch, args, device):
    if args.gpu_budget:
        return args.gpu_budget
    total = None if args.cpu else torch.cuda.get_device_properties(device).total_memory
    return args.like.get("budget_bytes", total)


def manager_name(args):
    return (args.manager + ("+save-on-cpu" if args.save_on_cpu else "") +
            ("+checkpoint" if args.checkpoint else ""))


def run(torch, nodes, args, device):
    as_in = args.like
    result = {
        "schema": "weir-result-1",
        "workload": "gcn",
        "parameters": {
            "nodes": nodes, "slice": args.slice, "hidden": HIDDEN, "epochs": args.epochs,
            "warm_up": args.warm_up, "seed": args.seed, "data": "real", "graph": None,
            "device": as_in.get("device", "cpu" if args.cpu else "gpu0"),
            "host_budget_bytes": as_in.get("host_budget_bytes"), "block_bytes": None},
        "machine": as_in.get("machine", "cuda"),
        "manager": manager_name(args),
        "policy": f"pytorch {torch.__version__}",
        "status": "ok",
    }
    times, losses = [], []
    try:
        times, losses = train(torch, nodes, args, device)
    except RuntimeError as error:
        # Without its allocator PyTorch has no exception of its own for this.
        if "out of memory" not in str(error):
            raise
        result["status"] = "out-of-memory"
    result |= {
        "epoch_s": times,
        "epoch_median_s": median(times) if times else None,
        "bytes": {},
        "faults": 0,
        "first_touches": 0,
        "peak_bytes": {"gpu0": peak_bytes(torch, args, device)},
        "budget_bytes": budget_bytes(torch, args, device),
        "check": {"loss": losses, "test_accuracy": None, "passed": None},
        "bound_s": None,
        "version": as_in.get("version", f"pytorch {torch.__version__}"),
    }
    # A loss that no training of random labels gives: the work was not done.
    if any(not math.isfinite(x) or abs(x - math.log(CLASSES)) > 0.5 for x in losses):
        result["status"], result["error"] = "failed", "losses are far from ln 10"
    return result


def main():
    args = parse()
    torch = load_torch(args)
    device = torch.device("cpu" if args.cpu else "cuda:0")
    status = 0
    for nodes in args.nodes:
        result = run(torch, nodes, args, device)
        print(json.dumps(result), flush=True)
        if result["status"] == "failed":
            print(f"gcn.py: {nodes} nodes: {result['error']}", file=sys.stderr)
            status = 1
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return status


if __name__ == "__main__":
    sys.exit(main())
