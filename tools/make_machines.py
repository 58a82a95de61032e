#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the descriptions of machines with many GPUs, which have links between all of them.

docs/machines.md says what stands behind their constants. h200x8 is h200x2 with more GPUs: all that
was measured of one GPU, or of a pair, is taken from machines/h200x2.json. The gv100 ones are made
of the constants below.

usage: make_machines.py          write machines/NAME.json
       make_machines.py --check  compare with the files instead; exit 1 if one differs
"""

import itertools
import json
import pathlib
import sys

MACHINES = pathlib.Path(__file__).resolve().parent.parent / "machines"
GPS = "GPS, MICRO'21"


def constant(value, origin, source):
    """What was computed is no more exact than three digits."""
    whole = value if isinstance(value, int) else round(float(f"{value:.3g}"))
    return {"value": whole, "origin": origin, "source": source}


def assumed(value, source):
    return constant(value, "assumed", source)


def machine(name, about, host, gpu, links, vmm, ports):
    """A whole description. gpu: its memory's bytes and its constants; links: those of a link to the
    host and of one between GPUs; ports: (memory or "gpu", links busy, constants)."""
    nr = int(name.split("x")[1].split("-")[0])
    gpus = [f"gpu{i}" for i in range(nr)]
    result = {
        "schema": 1,
        "name": name,
        "about": about,
        "memory": [{"name": "host", "kind": "host", "bytes": host}]
        + [{"name": g, "kind": "hbm", "bytes": gpu["bytes"]} for g in gpus],
        "device": [{"name": g, "memory": g} | gpu["device"] for g in gpus],
        "link": [{"a": "host", "b": g} | links["host"] for g in gpus]
        + [{"a": a, "b": b} | links["peer"] for a, b in itertools.combinations(gpus, 2)],
        "vmm": vmm,
        "port": [{"memory": g, "links": busy} | rates for memory, busy, rates in ports
                 for g in (gpus if memory == "gpu" else [memory])],
    }
    return result


def both_ways(send, receive):
    return {"send_bytes_per_s": send, "receive_bytes_per_s": receive}


# ------------------------------------------------------------------ H200

def h200x8():
    two = json.loads((MACHINES / "h200x2.json").read_text(encoding="utf-8"))
    four = json.loads((MACHINES / "h200x4.json").read_text(encoding="utf-8"))
    port = {(p["memory"], p["links"]): p for p in two["port"]}
    names = ("a", "b", "name", "memory", "links")
    plain = lambda part: {k: v for k, v in part.items() if k not in names}
    alone = port["gpu0", 1]["send_bytes_per_s"]["value"]
    ports = [("host", 2, plain(port["host", 2]))]
    ports += [("host", p["links"], plain(p)) for p in four["port"]
              if p["memory"] == "host" and p["links"] > 2]
    of_four = ports[-1][2]["send_bytes_per_s"]["value"]
    ports += [("host", busy, both_ways(rate, rate)) for busy, rate in (
        (busy, assumed(of_four * busy / 4, "as much for each link as four H200s have together: "
                       "two sockets with four GPUs each")) for busy in (6, 8))]
    ports += [("gpu", 1, plain(port["gpu0", 1]))]
    ports += [("gpu", busy, both_ways(rate, rate)) for busy, rate in (
        (busy, assumed(alone * sent / 370, f"one kernel on four H200s that stores to {busy} "
                       f"neighbours sends {sent} GB/s, and 370 to one: as much of what copies over "
                       "one link reach. All 18 NVLinks go to the switch")) for busy, sent in
        ((2, 364), (3, 360)))]
    result = machine(
        "h200x8", "eight NVIDIA H200s behind an NVSwitch, each with a PCIe 5 x16 link of its own",
        assumed(1 << 40, "what comes with eight GPUs of the probed machine"),
        {"bytes": two["memory"][1]["bytes"], "device": plain(two["device"][0])},
        {"host": plain(two["link"][0]), "peer": plain(two["link"][2])}, two["vmm"], ports)
    return result | {"kernel": two["kernel"]}


# ------------------------------------------------------------------ GV100

H200 = "as on an H200"

GV100 = {
    "bytes": constant(16 << 30, "published", f"{GPS}: 16 GB of a GV100"),
    "device": {
        "hbm_bytes_per_s": assumed(0.85 * 900e9, "0.85 of the vendor's 900 GB/s of HBM2"),
        "hbm_random_bytes_per_s": assumed(0.85 * 900e9 * 3.3 / 4.55,
                                          "as much less than streaming as on one H200"),
        "ops_per_s": assumed(0.75 * 14e12,
                             "three quarters of the vendor's 14 TFLOPS of fp32, on 80 SMs"),
        "launch_ns": assumed(2000, "usual for small kernels that follow each other on a stream"),
        "launch_host_ns": assumed(2500, "usual for a launch call"),
        "malloc_ns": assumed(20000, H200),
        "malloc_2mib_ns": assumed(2160, H200),
    },
}

GV100_VMM = {
    "granularity_bytes": constant(2 << 20, "vendor",
                                  "least allocation granularity of the driver"),
    "map_ns": assumed(3700, H200),
    "set_access_ns": assumed(36000, H200),
    "set_access_device_ns": assumed(4900, H200),
    "unmap_ns": assumed(39000, H200),
    "set_access_host_mib_ns": assumed(8600, H200),
    "unmap_host_mib_ns": assumed(2000, H200),
    "set_access_busy_ns": assumed(800, H200),
    "create_hbm_ns": assumed(69000, H200),
    "create_host_ns": assumed(358000, H200),
}


def pcie_link(rate, duplex, peer):
    """One of a GPU's: to the host, or to another GPU. Other rates are as much of the copies' as over
    an H200's host link, PCIe 5 with copies at 55.4 GB/s."""
    share = rate["value"] / 55.4e9
    same = "as much of the copies' rate as on one H200"
    reach = (assumed(16 << 30, "all of the neighbour, in pages of 2 MiB") if peer else
             assumed(781 << 20, H200))
    misses = "that translation between GPUs holds nothing back" if peer else H200
    link = {
        "a_to_b_bytes_per_s": rate,
        "b_to_a_bytes_per_s": rate,
        "duplex_bytes_per_s": duplex,
        "latency_ns": assumed(2500, H200),
        "copy_ns": assumed(90, H200),
        "inplace_bytes_per_s": assumed(51.3e9 * share, same),
        "inplace_small_per_s": assumed(700e6 * share, same),
        "inplace_large_per_s": assumed(700e6 * share if peer else 37.8e6, misses),
        "inplace_reach_bytes": reach,
        "inplace_request_bytes": constant(
            128, "vendor", "the largest request that a warp sends for neighbouring addresses"),
        "inplace_duplex_bytes_per_s": assumed(26.5e9 * share, same),
        "inplace_both_bytes_per_s": assumed(42.1e9 * share, same),
        "inplace_update_large_per_s": assumed(700e6 * share if peer else 30.5e6, misses),
    }
    return link | ({"event_ns": assumed(5700, "as between two H200s")} if peer else {})


def gv100(nr, generation):
    count = {4: "four", 16: "sixteen"}[nr]
    if generation == 3:
        rate = assumed(12.5e9, "PCIe 3 x16 is 16 GB/s each way, of which copies reach 12 to 13")
        duplex = assumed(11.5e9, "a little less than alone, as on an H200")
    else:
        rate = constant(128e9, "published", f"{GPS}: projected PCIe 6, 128 GB/s each way")
        duplex = constant(128e9, "published", f"{GPS}: projected PCIe 6, 128 GB/s each way")
    port = assumed(rate["value"], "a GPU's one port, which all its neighbours share; one of them "
                   "can fill it")
    return machine(
        f"gv100x{nr}-pcie{generation}",
        f"{count} NVIDIA GV100s with 16 GB each, which reach each other over one PCIe "
        f"{generation} x16 port each",
        assumed(nr << 35, "twice what the GPUs have"), GV100,
        {"host": pcie_link(rate, duplex, False), "peer": pcie_link(rate, duplex, True)}, GV100_VMM,
        [("gpu", 1, both_ways(port, port))])


# ------------------------------------------------------------------ text

def write_constants(part, indent):
    """The members of an object, a constant on two lines, as in the files that are written by hand."""
    plain = [f'"{k}": {json.dumps(v)}' for k, v in part.items() if not isinstance(v, dict)]
    lines = [indent + ", ".join(plain)] if plain else []
    for key, value in part.items():
        if isinstance(value, dict):
            lines.append(f'{indent}"{key}": {{"value": {value["value"]}, "origin": '
                         f'"{value["origin"]}",\n{indent}  "source": {json.dumps(value["source"])}}}')
    return ",\n".join(lines)


def write(description):
    parts = []
    for key, value in description.items():
        if isinstance(value, list):
            objects = [f"    {{\n{write_constants(part, '      ')}\n    }}" for part in value]
            parts.append(f'  "{key}": [\n' + ",\n".join(objects) + "\n  ]")
        elif isinstance(value, dict):
            parts.append(f'  "{key}": {{\n{write_constants(value, "    ")}\n  }}')
        else:
            parts.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    bad = 0
    for description in [h200x8()] + [gv100(nr, generation) for nr in (4, 16)
                                     for generation in (3, 6)]:
        path = MACHINES / f"{description['name']}.json"
        if not sys.argv[1:]:
            path.write_text(write(description), encoding="utf-8")
        elif path.read_text(encoding="utf-8") != write(description):
            print(f"{path.name}: is not what this program writes", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
