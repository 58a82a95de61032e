#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: stats_lines.py NUMBER FILE: FILE has so many lines, each of which is one JSON object of
`weir run --stats`, and each of another process."""

import json
import sys

with open(sys.argv[2], encoding="utf-8") as file:
    processes = [json.loads(line) for line in file]
assert len(processes) == int(sys.argv[1]), f"{len(processes)} lines"
assert len({p["pid"] for p in processes}) == len(processes), "two of one process"
assert all(p["allocations"] > 0 and "switched" in p for p in processes), "one is not whole"
