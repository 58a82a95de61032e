#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings in PyTorch whose data fit in the GPU's memory, to measure what `weir run` costs them.

  gcn     full-batch training of a graph network: few launches, long kernels (gcn.py's)
  gpt     a small GPT under AdamW: many short launches, and optimizer kernels that name many tensors
  resnet  a ResNet under SGD on random images: convolutions, with workspaces of cuDNN's

The same work whatever holds the memory, from fixed seeds: run it by itself and under `weir run`.
One JSON object on standard output: seconds of each measured iteration between two events of the
GPU, in which the host may run ahead as in any training, their median, least and 99th percentile;
the seconds of all together; the loss of every iteration, warm-up included, as hexadecimal floats,
and a digest of them (check), so that two runs can be compared to the last bit. Whether two runs
without weir agree so far is PyTorch's and the model's matter: --deterministic asks for it. Needs
PyTorch with CUDA, and nothing else.
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

import gcn

VOCABULARY, IMAGE_CLASSES = 50304, 1000
BATCHES = 4  # of random data in the host's memory, in turn
BATCH = {"gpt": 8, "resnet": 64}


class Block(nn.Module):
    """Of a GPT: causal attention, then two linear layers, each added to what comes in."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, h):
        batch, context, width = h.shape
        q, k, v = (part.view(batch, context, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(h).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, context, width))

    def forward(self, h):
        h = h + self.attend(self.norms[0](h))
        return h + self.mlp(self.norms[1](h))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.place = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        h = self.blocks(self.token(tokens) + self.place(places))
        return self.head(self.norm(h))


def conv(width_in, width_out, size, stride=1):
    """A convolution that keeps the picture's size but for the stride, and its normalisation."""
    return [nn.Conv2d(width_in, width_out, size, stride, padding=size // 2, bias=False),
            nn.BatchNorm2d(width_out)]


class Residual(nn.Module):
    """Of a ResNet: two convolutions, or three where the middle one is narrow, beside a shortcut."""

    def __init__(self, width_in, width, stride, narrow):
        super().__init__()
        width_out = 4 * width if narrow else width
        if narrow:
            self.body = nn.Sequential(
                *conv(width_in, width, 1), nn.ReLU(inplace=True),
                *conv(width, width, 3, stride), nn.ReLU(inplace=True),
                *conv(width, width_out, 1))
        else:
            self.body = nn.Sequential(
                *conv(width_in, width, 3, stride), nn.ReLU(inplace=True), *conv(width, width, 3))
        self.shortcut = nn.Identity()
        if stride > 1 or width_in != width_out:
            self.shortcut = nn.Sequential(*conv(width_in, width_out, 1, stride))

    def forward(self, h):
        return functional.relu(self.body(h) + self.shortcut(h), inplace=True)


class ResNet(nn.Module):
    STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}

    def __init__(self, depth):
        super().__init__()
        narrow, width_in = depth >= 50, 64
        layers = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
        for stage, blocks in enumerate(self.STAGES[depth]):
            width = 64 << stage
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Residual(width_in, width, stride, narrow))
                width_in = 4 * width if narrow else width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width_in, IMAGE_CLASSES)

    def forward(self, images):
        return self.head(self.body(images).mean((2, 3)))


class Batches:
    """Training of a model on random batches, which come from pinned host memory, as a loader's."""

    def __init__(self, args, device, model, optimizer, batches):
        self.args, self.device = args, device
        self.model, self.optimizer = model, optimizer
        self.batches = batches if device.type == "cpu" else [
            [part.pin_memory() for part in batch] for batch in batches]
        self.step = 0

    def kernels(self):
        """Of attention, only the plain one is deterministic in its backward pass."""
        if not self.args.deterministic or self.args.model != "gpt":
            return contextlib.nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel
        return sdpa_kernel(SDPBackend.MATH)

    def iteration(self):
        """One iteration. Returns the loss, still on the device."""
        batch = self.batches[self.step % len(self.batches)]
        inputs, wanted = (part.to(self.device, non_blocking=True) for part in batch)
        self.step += 1
        self.optimizer.zero_grad(set_to_none=True)
        with self.kernels(), torch.autocast(self.device.type, dtype=torch.bfloat16,
                                            enabled=self.args.bf16):
            out = self.model(inputs)
            loss = functional.cross_entropy(out.flatten(0, -2), wanted.flatten())
        del out
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def make_gpt(args, device):
    model = GPT(args.layers, args.width, args.heads, args.context).to(device)
    texts = [torch.randint(VOCABULARY, (args.batch, args.context + 1)) for _ in range(BATCHES)]
    batches = [[text[:, :-1].contiguous(), text[:, 1:].contiguous()] for text in texts]
    return Batches(args, device, model, torch.optim.AdamW(model.parameters(), lr=3e-4), batches)


def make_resnet(args, device):
    model = ResNet(args.depth).to(device)
    batches = [[torch.randn(args.batch, 3, args.image, args.image),
                torch.randint(IMAGE_CLASSES, (args.batch,))] for _ in range(BATCHES)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return Batches(args, device, model, optimizer, batches)


def make(args, device):
    """The function that does one iteration of what is asked for."""
    torch.manual_seed(args.seed)
    if args.model == "gpt":
        return make_gpt(args, device).iteration
    if args.model == "resnet":
        return make_resnet(args, device).iteration
    data = gcn.Data(torch, args.nodes, args.seed, device)
    return gcn.Training(torch, data, device, args.seed, args.slice).epoch


class Clock:
    """Marks between iterations: events of the GPU, for which the host does not wait."""

    def __init__(self, device, marks):
        self.on_gpu = device.type == "cuda"
        self.marks = [torch.cuda.Event(enable_timing=True) if self.on_gpu else None
                      for _ in range(marks)]

    def mark(self, i):
        if self.on_gpu:
            self.marks[i].record()
        else:
            self.marks[i] = time.perf_counter()

    def seconds(self):
        """Between marks, once the GPU has passed the last one."""
        pairs = zip(self.marks, self.marks[1:])
        if self.on_gpu:
            return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]
        return [end - begin for begin, end in pairs]


def measure(iteration, args, device):
    """Seconds of each measured iteration, and of all; all losses."""
    losses = torch.zeros(args.warm_up + args.iterations, device=device)
    clock = Clock(device, args.iterations + 1)
    for i in range(args.warm_up):
        losses[i] = iteration()
    gcn.synchronize(torch, device)
    begin = time.perf_counter()
    clock.mark(0)
    for i in range(args.iterations):
        losses[args.warm_up + i] = iteration()
        clock.mark(i + 1)
    gcn.synchronize(torch, device)
    return clock.seconds(), time.perf_counter() - begin, losses.tolist()


PARAMETERS = {"gcn": ("nodes", "slice"),
              "gpt": ("layers", "width", "heads", "context", "batch", "bf16"),
              "resnet": ("depth", "image", "batch", "bf16")}


def result(args, device, times, total, losses):
    ordered = sorted(times)
    written = [loss.hex() for loss in losses]
    on_gpu = device.type == "cuda"
    return {
        "schema": "weir-bench-fits-1",
        "model": args.model,
        "run": args.label,
        "parameters": {name: getattr(args, name) for name in PARAMETERS[args.model]},
        "seed": args.seed,
        "deterministic": args.deterministic,
        "iterations": args.iterations,
        "warm_up": args.warm_up,
        "median_s": gcn.median(times),
        "min_s": ordered[0],
        "p99_s": ordered[len(ordered) - 1 - len(ordered) // 100],
        "total_s": total,
        "peak_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "pytorch": torch.__version__,
        "check": hashlib.sha256(" ".join(written).encode()).hexdigest()[:16],
        "iteration_s": times,
        "losses": written,
    }


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number = gcn.count
    parser.add_argument("--model", choices=PARAMETERS, required=True)
    parser.add_argument("--iterations", type=number, default=200, help="measured (default 200)")
    parser.add_argument("--warm-up", type=number, default=20,
                        help="iterations before them (default 20)")
    parser.add_argument("--seed", type=int, default=2025, help="of all that is random")
    parser.add_argument("--label", default="", help="put into the result as \"run\"")
    parser.add_argument("--deterministic", action="store_true",
                        help="deterministic kernels where PyTorch has some, and a warning where "
                             "not; cuDNN does not choose by measuring then")
    parser.add_argument("--bf16", action="store_true",
                        help="gpt, resnet: mixed precision, with bfloat16")
    parser.add_argument("--batch", type=number,
                        help="texts (default 8) or images (default 64) in an iteration")
    parser.add_argument("--layers", type=number, default=12, help="of the GPT (default 12)")
    parser.add_argument("--width", type=number, default=768, help="of the GPT (default 768)")
    parser.add_argument("--heads", type=number, default=12, help="of the GPT (default 12)")
    parser.add_argument("--context", type=number, default=1024,
                        help="tokens of a text (default 1024)")
    parser.add_argument("--depth", type=int, choices=ResNet.STAGES, default=18,
                        help="of the ResNet (default 18)")
    parser.add_argument("--image", type=number, default=224,
                        help="an image's height and width (default 224)")
    parser.add_argument("--nodes", type=number, default=1_000_000, help="of the graph (default 1M)")
    parser.add_argument("--slice", type=number, default=2_000_000,
                        help="entries of a slice of the graph (default 2M)")
    parser.add_argument("--cpu", action="store_true",
                        help="on the CPU: to try the program, not to measure anything")
    args = parser.parse_args()
    args.batch = args.batch or BATCH.get(args.model)
    if args.width % args.heads:
        parser.error("--heads must divide --width")
    if not args.cpu and not torch.cuda.is_available():
        sys.exit("fits.py: PyTorch finds no GPU: run it where one is, or try it with --cpu")
    return args


def main():
    args = parse()
    device = torch.device("cpu" if args.cpu else "cuda:0")
    torch.backends.cudnn.benchmark = not args.deterministic
    if args.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS wants it, too
        torch.use_deterministic_algorithms(True, warn_only=True)
    times, total, losses = measure(make(args, device), args, device)
    print(json.dumps(result(args, device, times, total, losses), separators=(",", ":")))


if __name__ == "__main__":
    main()
