#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fit what the driver's managed memory costs (section "uvm" of machines/*.json).

docs/uvm-model.md has the model. Which blocks move, and when, does not depend on what that costs;
so every time of the model is a constant plus a multiple of each cost. The multiples are found by
running the simulator with each cost raised in turn, and the costs by least squares of relative
errors. Fitted are

  rtx5090  all five costs, on published epoch times of 5M and 12M nodes under four managers, and
           on the rate at which faults brought in data that fits, measured on an H200;
  h200     batch_ns, populate_ns and cpu_unmap_ns, on epoch times of 1M nodes under two managers
           and the same rate; the other two are taken over from rtx5090, since nothing that was
           measured there hangs on them.

All other times are predictions, and say how good the model is.

usage: fit_uvm.py           print the costs found, with the residuals of the files' costs
       fit_uvm.py --check   also compare costs and docs/uvm-model.md with what was found; exit 1 if
                            a cost is off by over 0.5 %, or the table is not the printed one
       fit_uvm.py --write   write costs and table to the files

Runs build/weir and build/bench/bench_uvm_rates; about three minutes.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "uvm-model.md"
MARKS = ("<!-- begin fit -->\n", "<!-- end fit -->\n")

MANAGERS = ("uvm", "uvm+max", "uvm+prefetch", "uvm+prefetch+max")

# Seconds an epoch, by million nodes and in the order of MANAGERS; fitted are the sizes of FIT.
RTX5090 = {
    5: (34.23, 12.76, 5.54, 5.55),
    8: (55.36, 20.51, 8.97, 9.10),
    10: (70.06, 26.47, 12.76, 12.17),
    12: (93.71, 39.74, 24.41, 21.82),
}
# One H200, 2026-11-20 (docs/results.md): no whole blocks there.
H200 = {1: (5.509, None, 0.9684, None), 3: (16.55, None, 2.976, None)}
STREAM = 6.05e9  # bytes a second
# Of pages at random that the CPU has not mapped, on one H200, 2026-11-21 (docs/results.md): what
# UVM_BLOCK_SHARE (src/backend/sim/sim_uvm.h) is from. Key of bench_uvm_rates, words, unit, measured.
UNMAPPED = (
    ("unmapped_2gib_bytes_per_s", "2 GiB, every page", "GB/s", 1e9, 12.6),
    ("unmapped_8gib_bytes_per_s", "8 GiB, every page", "GB/s", 1e9, 11.6),
    ("unmapped_2gib_pages_per_s", "2 GiB, 5 % of the pages", "thousand pages/s", 1e3, 140),
    ("unmapped_8gib_pages_per_s", "8 GiB, 5 % of the pages", "thousand pages/s", 1e3, 135),
)

COSTS = ("batch_ns", "page_ns", "populate_ns", "cpu_unmap_ns", "host_page_ns")
FIT = {
    "rtx5090": {"times": RTX5090, "sizes": (5, 12), "costs": COSTS},
    "h200": {"times": H200, "sizes": (1,), "costs": ("batch_ns", "populate_ns", "cpu_unmap_ns")},
}
TAKEN_OVER = ("page_ns", "host_page_ns")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def machine_path(name):
    return ROOT / "machines" / f"{name}.json"


def with_costs(text, costs):
    """A description's text with other costs; its layout stays."""
    for key, value in costs.items():
        text, nr = re.subn(rf'("{key}": \{{"value": )\d+', rf"\g<1>{value}", text)
        if nr != 1:
            sys.exit(f"fit_uvm.py: {key} is there {nr} times")
    return text


def file_costs(name):
    section = json.loads(machine_path(name).read_text(encoding="utf-8"))["uvm"]
    return {key: section[key]["value"] for key in COSTS}


class Model:
    """What the simulator says for a machine with given costs."""

    def __init__(self, name, costs, sizes):
        times = FIT[name]["times"]
        managers = [m for i, m in enumerate(MANAGERS) if times[sizes[0]][i]]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{name}.json"
            text = machine_path(name).read_text(encoding="utf-8")
            path.write_text(with_costs(text, costs), encoding="utf-8")
            lines = run(ROOT / "build" / "weir", "bench", "gcn", "--machine", path, "--nodes",
                        ",".join(f"{size}M" for size in sizes), "--manager", ",".join(managers),
                        "--json", "-")
            self.rates = json.loads(run(ROOT / "build" / "bench" / "bench_uvm_rates", path))
        self.epoch_s = {}
        for line in lines.splitlines():
            result = json.loads(line)
            key = (result["parameters"]["nodes"] // 10**6, result["manager"])
            self.epoch_s[key] = sum(result["epoch_s"]) / len(result["epoch_s"])

    def observed(self, name):
        """Pairs of a time of the model and the one observed."""
        times = FIT[name]["times"]
        pairs = [(s, times[size][MANAGERS.index(manager)])
                 for (size, manager), s in self.epoch_s.items()]
        return pairs + [(1 / self.rates["stream_bytes_per_s"], 1 / STREAM)]


def solve(matrix, right):
    """x of matrix x = right, by elimination."""
    rows = [row + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda r, i=i: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r, row in enumerate(rows):
            if r != i:
                factor = row[i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(row, rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def fit(name, start):
    """Costs, from those that are started with."""
    sizes, keys = FIT[name]["sizes"], FIT[name]["costs"]
    base = Model(name, start, sizes).observed(name)
    columns = []
    for key in keys:
        raised = dict(start, **{key: start[key] * 2})
        changed = Model(name, raised, sizes).observed(name)
        columns.append([(b[0] - a[0]) / a[1] / start[key] for a, b in zip(base, changed)])
    # What is left of each time without the costs that are fitted, relative to the time observed.
    rest = [1 - a[0] / a[1] + sum(c[i] * start[k] for c, k in zip(columns, keys))
            for i, a in enumerate(base)]
    matrix = [[sum(a * b for a, b in zip(c, d)) for d in columns] for c in columns]
    right = [sum(a * b for a, b in zip(c, rest)) for c in columns]
    found = dict(zip(keys, solve(matrix, right)))
    for key, value in found.items():
        if value <= 0:
            sys.exit(f"fit_uvm.py: {name}: {key} comes out as {value:.3g}: the model is wrong")
    return dict(start, **{key: int(float(f"{value:.3g}")) for key, value in found.items()})


def table(name, costs):
    """Published and modelled times as Markdown."""
    times = FIT[name]["times"]
    model = Model(name, costs, tuple(times))
    managers = [m for i, m in enumerate(MANAGERS) if next(iter(times.values()))[i]]
    lines = ["| nodes | " + " | ".join(f"`{m}`" for m in managers) + " | |",
             "|---|" + "---|" * (len(managers) + 1)]
    for size in times:
        cells = []
        for manager in managers:
            was, is_ = times[size][MANAGERS.index(manager)], model.epoch_s[size, manager]
            cells.append(f"{was:.4g}, {is_:.4g}, {100 * (is_ / was - 1):+.1f} %")
        role = "fitted" if size in FIT[name]["sizes"] else "predicted"
        lines.append(f"| {size}M | " + " | ".join(cells) + f" | {role} |")
    rates = model.rates
    lines += ["", f"Faults bring {rates['stream_bytes_per_s'] / 1e9:.3g} GB/s into a kernel that "
              f"streams (6.05, fitted),", f"{rates['random_pages_per_s'] / 1e3:.3g} thousand pages "
              "a second into one that reads pages at random (217), and a",
              f"prefetch {rates['prefetch_bytes_per_s'] / 1e9:.3g} GB/s (49.5). The figures in "
              "brackets were measured on an H200."]
    if name == "h200":
        lines += ["", "| pages at random, not mapped by the CPU | measured | of the model | |",
                  "|---|---|---|---|"]
        for key, words, unit, per, was in UNMAPPED:
            is_ = model.rates[key] / per
            lines.append(f"| {words} | {was} {unit} | {is_:.3g} | {100 * (is_ / was - 1):+.1f} % |")
    return lines


def report(costs):
    """The part of the document that this writes."""
    lines = ["| | " + " | ".join(f"`{key}`" for key in COSTS) + " |", "|---|" + "---|" * len(COSTS)]
    lines += [f"| `{name}` | " + " | ".join(str(own[key]) for key in COSTS) + " |"
              for name, own in costs.items()]
    for name, own in costs.items():
        lines += ["", f"`{name}`: seconds an epoch as published, of the model, and by how much it "
                  "is off:", ""]
        lines += table(name, own)
    return "\n".join(lines) + "\n"


def document_part():
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    return text[:begin], text[begin:end], text[end:]


def write(costs, text):
    for name, own in costs.items():
        path = machine_path(name)
        path.write_text(with_costs(path.read_text(encoding="utf-8"), own), encoding="utf-8")
    before, _, after = document_part()
    DOCUMENT.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


def check(costs, text):
    bad = 0
    for name, own in costs.items():
        for key, value in file_costs(name).items():
            if abs(value / own[key] - 1) > 0.005:
                print(f"{name}.json: uvm.{key}: is {value}, the fit says {own[key]}",
                      file=sys.stderr)
                bad += 1
    if document_part()[1] != f"\n{text}\n":
        print(f"{DOCUMENT}: the table is another one: write it with --write", file=sys.stderr)
        bad += 1
    return bad


def main():
    if sys.argv[1:] not in ([], ["--check"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    costs = {"rtx5090": fit("rtx5090", file_costs("rtx5090"))}
    taken = {key: costs["rtx5090"][key] for key in TAKEN_OVER}
    costs["h200"] = fit("h200", dict(file_costs("h200"), **taken))
    text = report(costs)
    print(text)
    if sys.argv[1:] == ["--write"]:
        write(costs, text)
    return 1 if sys.argv[1:] == ["--check"] and check(costs, text) else 0


if __name__ == "__main__":
    sys.exit(main())
