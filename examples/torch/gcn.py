#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a graph convolutional network on the whole of a random graph at once.

An ordinary PyTorch program, which knows nothing of weir. By the sizes of its tensors 5 million
nodes take some 24 GB; on a GPU that has less it ends with "CUDA out of memory":

    python3 gcn.py --nodes 5000000

Under weir the same command gets through: --gpu-budget says how much of the GPU's memory it may use,
and the rest lies in the host's memory:

    weir run --mode fast --gpu-budget 15GB -- python3 gcn.py --nodes 5000000

The features are random and so are the labels: there is nothing to learn but the shape of the work.
Needs PyTorch, and nothing else. Without a GPU it runs on the CPU.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

CLASSES, DEGREE, SLICE = 10, 10, 2_000_000


def aggregate(h, src, dst, weight):
    """out[dst] += weight * h[src], some edges at a time, so that what is gathered stays small."""
    out = torch.zeros_like(h)
    for s, d, w in zip(src.split(SLICE), dst.split(SLICE), weight.split(SLICE)):
        out.index_add_(0, d, h.index_select(0, s) * w.unsqueeze(1))
    return out


class Aggregate(torch.autograd.Function):
    """aggregate(), whose gradient is the same along the edges turned round."""

    @staticmethod
    def forward(ctx, h, src, dst, weight):
        ctx.save_for_backward(src, dst, weight)
        return aggregate(h, src, dst, weight)

    @staticmethod
    def backward(ctx, grad):
        src, dst, weight = ctx.saved_tensors
        return aggregate(grad, dst, src, weight), None, None, None


class GCN(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        widths = [width] * layers + [CLASSES]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, h, graph):
        for linear in self.linears[:-1]:
            h = functional.relu(Aggregate.apply(linear(h), *graph))
            h = functional.dropout(h, 0.5, self.training)
        return Aggregate.apply(self.linears[-1](h), *graph)


def random_graph(nodes, device):
    """Edges in both directions and a loop at each node, weighted by their ends' degrees."""
    ends = torch.randint(nodes, (2, DEGREE * nodes), device=device)
    loops = torch.arange(nodes, device=device)
    src = torch.cat([ends[0], ends[1], loops])
    dst = torch.cat([ends[1], ends[0], loops])
    scale = torch.bincount(dst, minlength=nodes).float().rsqrt()
    return src, dst, scale[src] * scale[dst]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="default 1000000")
    parser.add_argument("--width", type=int, default=256,
                        help="of a node's features, in each layer (default 256)")
    parser.add_argument("--layers", type=int, default=2, help="default 2")
    parser.add_argument("--epochs", type=int, default=5, help="default 5")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    args = parser.parse_args()
    for name in ("nodes", "width", "layers", "epochs"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return args


def synchronize(device):
    """Kernels run beside the program: a time means something once they are done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def main():
    args = parse()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    graph = random_graph(args.nodes, device)
    features = torch.randn(args.nodes, args.width, device=device)
    labels = torch.randint(CLASSES, (args.nodes,), device=device)
    model = GCN(args.width, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    for epoch in range(1, args.epochs + 1):
        synchronize(device)
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(features, graph), labels)
        loss.backward()
        optimizer.step()
        synchronize(device)
        seconds = time.perf_counter() - begin
        if args.json:
            print(json.dumps({"epoch": epoch, "loss": loss.item(), "seconds": seconds}), flush=True)
        else:
            print(f"epoch {epoch}: loss {loss.item():.6f}, {seconds:.3f} s", flush=True)

    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    if args.json:
        print(json.dumps({"peak_bytes": peak}))
    elif peak is not None:
        print(f"at most {peak / 1e9:.2f} GB of memory allocated")


if __name__ == "__main__":
    main()
