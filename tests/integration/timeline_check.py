#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check a timeline against the results of the same command: timeline_check.py TIMELINE RESULTS.

--whole: it has all of each run, so that its bytes add up to those of the results.
Of solvers, messages are those that the results have: all of them with --whole.
--overlap: under weir, kernels and copies of both directions go on at the same time.
Ends with 0 and a line on each run, or with 1 and a line on what is wrong."""

import argparse
import json
import re
import sys
from decimal import Decimal


def fail(text):
    sys.exit("timeline_check: " + text)


def end(span):
    return span["ts"] + span["dur"]


def together(a, b):
    """Time that spans of both lists, each sorted and disjoint, go on."""
    total, i, j = Decimal(0), 0, 0
    while i < len(a) and j < len(b):
        total += max(Decimal(0), min(end(a[i]), end(b[j])) - max(a[i]["ts"], b[j]["ts"]))
        if end(a[i]) < end(b[j]):
            i += 1
        else:
            j += 1
    return total


def copies_more(result):
    """Of solvers: whether something is copied from the host or to it that is in no result's bytes.
    Under weir numbers of elements that go as packets are, and real data where it is read in the
    end."""
    sent = result.get("mechanisms")
    return sent and (result["parameters"]["data"] == "real" or
                     (result["manager"].startswith("weir") and sent["packets"]["messages"] > 0))


class Run:
    def __init__(self, events):
        self.title = self.facts = None
        self.track, self.spans, self.samples = {}, {}, {}
        for event in events:
            if event["ph"] == "M":
                self.metadata(event)
            elif event["ph"] == "X":
                self.spans.setdefault(event["tid"], []).append(event)
            elif event["ph"] == "C":
                self.samples.setdefault(event["name"], []).append(event)
            else:
                fail("an event of kind '%s'" % event["ph"])
        for spans in self.spans.values():
            spans.sort(key=lambda span: span["ts"])

    def metadata(self, event):
        if event["name"] == "process_name":
            self.title = event["args"]["name"]
        elif event["name"] == "thread_name":
            self.track[event["tid"]] = event["args"]["name"]
        elif event["name"] == "weir_run":
            self.facts = event["args"]

    def named(self, suffix):
        """Spans of the one track whose name ends so; none, if there is no such track."""
        tids = [tid for tid, name in self.track.items() if name.endswith(suffix)]
        if len(tids) > 1:
            fail("%s: several tracks are called %s" % (self.title, suffix))
        return self.spans[tids[0]] if tids else []

    def kernels(self):
        """Launches on all tracks of kernels, by begin."""
        tids = [tid for tid, name in self.track.items()
                if re.fullmatch(r"\w+ kernels( \d+)?", name)]
        return sorted((span for tid in tids for span in self.spans[tid] if "read" in span["args"]),
                      key=lambda span: span["ts"])

    def check_spans(self):
        for tid, spans in self.spans.items():
            if tid not in self.track:
                fail("%s: track %d has no name" % (self.title, tid))
            for before, after in zip(spans, spans[1:]):
                if after["ts"] < end(before):
                    fail("%s: on track '%s', %s at %s begins before %s at %s has ended" %
                         (self.title, self.track[tid], after["name"], after["ts"],
                          before["name"], before["ts"]))

    def check_epochs(self, nr, alone):
        """alone: only one kernel runs at a time."""
        epochs = self.named("epochs")
        if len(epochs) != nr:
            fail("%s: %d epochs, not %d" % (self.title, len(epochs), nr))
        for epoch in epochs:
            busy = [span for span in self.kernels()
                    if span["ts"] >= epoch["ts"] and span["ts"] < end(epoch)]
            if not busy:
                fail("%s: no kernel in %s" % (self.title, epoch["name"]))
            if alone and sum(span["dur"] for span in busy) > epoch["dur"]:
                fail("%s: kernels take longer than %s" % (self.title, epoch["name"]))

    def check_counters(self, machine_memories):
        budgets = {memory: self.facts["host_budget_bytes" if memory == "host"
                                      else "gpu_budget_bytes"] for memory in machine_memories}
        # Of GPUs that are not the device only what has a budget is used.
        for memory in set(budgets) - {"host", "gpu0"}:
            budgets[memory] = self.facts.get("near_budget_bytes", {}).get(memory, 0)
        residents = self.samples.get("resident bytes", [])
        if not residents:
            fail("%s: nothing is resident at any time" % self.title)
        for sample in residents:
            for memory, value in sample["args"].items():
                if not 0 <= value <= budgets[memory]:
                    fail("%s: %d bytes in %s at %s, the budget is %d" %
                         (self.title, value, memory, sample["ts"], budgets[memory]))
        for name, samples in self.samples.items():
            for before, after in zip(samples, samples[1:]):
                if after["ts"] < before["ts"]:
                    fail("%s: counter '%s' goes back in time" % (self.title, name))
            for sample in samples:
                for key, value in sample["args"].items():
                    if value < 0 or (name.endswith("by name")
                                     and value > budgets[name.split()[2]]):
                        fail("%s: counter '%s' has %d of %s" % (self.title, name, value, key))

    def sum_of(self, key, kinds=None, tracks=""):
        """tracks: how the names of the tracks begin."""
        return sum(span["args"].get(key, 0) for tid, spans in self.spans.items() for span in spans
                   if "args" in span and (not kinds or span["name"] in kinds)
                   and self.track[tid].startswith(tracks))

    def check_bytes(self, result):
        if self.facts["dropped"]:
            fail("%s: %d events were dropped" % (self.title, self.facts["dropped"]))
        kernels = len(self.kernels())
        for copied, used, host in (("in", "read", "host->"), ("out", "written", "->host")):
            in_place = sum(flow["in-place"] for name, flow in result["bytes"].items()
                           if host in name)
            # Other GPUs' copies from and to the host are in the record, too.
            copies = sum(flow[cause] for name, flow in result["bytes"].items() for cause in flow
                         if cause != "in-place" and
                         (name.startswith("host->") if copied == "in" else name.endswith("->host")))
            found = self.sum_of(copied, ("copy in", "copy out"))
            if found != copies and not (found > copies and copies_more(result)):
                fail("%s: %d bytes were copied %s, the result has %d" %
                     (self.title, self.sum_of(copied, ("copy in", "copy out")), copied, copies))
            if abs(self.sum_of(used) - in_place) > kernels:
                fail("%s: %d bytes were %s in place, the result has %d" %
                     (self.title, self.sum_of(used), used, in_place))

    def integral(self, counter, key):
        """What a counter of bytes/s adds up to; it is 0 in the end."""
        samples = self.samples[counter]
        return sum(before["args"][key] * (after["ts"] - before["ts"]) / 1000000
                   for before, after in zip(samples, samples[1:]))

    def check_links(self, result):
        """Each link that bytes crossed has its rates, which add up to those bytes."""
        until = max(end(span) for spans in self.spans.values() for span in spans)
        kernels = len(self.kernels())
        for way, flow in result["bytes"].items():
            a, b = way.split("->")
            expected = sum(flow.values())
            counter, key = next((("link %s-%s bytes/s" % pair, way) for pair in ((a, b), (b, a))
                                 if "link %s-%s bytes/s" % pair in self.samples), (None, None))
            if sorted((a, b)) == ["gpu0", "host"]:
                counter, key = "link bytes/s", "in" if b == "gpu0" else "out"
            if "host" in (a, b):
                expected += self.sum_of("out" if b == "host" else "in", ("upload", "download"),
                                        "%s " % (a if b == "host" else b))
            if not expected or ("host" in (a, b) and copies_more(result)):
                continue
            if not counter:
                fail("%s: no rates of %s" % (self.title, way))
            total = self.integral(counter, key)
            # Rates are cut to bytes a second; of what kernels use each may lose a byte.
            if abs(total - expected) > kernels + until / 1000000 + total / 1000:
                fail("%s: the rates of %s add up to %d bytes, the result has %d" %
                     (self.title, way, total, expected))
        between = sum(flow[cause] for way, flow in result["bytes"].items() for cause in flow
                      if cause != "in-place" and "host" not in way)
        if self.sum_of("between") != between:
            fail("%s: %d bytes were copied between GPUs, the result has %d" %
                 (self.title, self.sum_of("between"), between))

    def messages(self):
        """Spans of messages, with the way that each goes."""
        for tid, name in self.track.items():
            match = re.fullmatch(r"messages (\w+->\w+)( \d+)?", name)
            for span in self.spans[tid] if match else []:
                yield match[1], span

    def check_message(self, span):
        message = span["args"]
        part = message["end"] - message["offset"]
        if (not 0 < message["bytes"] <= part
                or message["reason"] not in ("fetched", "published")
                or (message["mechanism"] == "whole" and message["bytes"] != part)):
            fail("%s: a message of %s" % (self.title, message))

    def check_messages(self, result, whole):
        """They add up, by mechanism and by way, to what the result has; to no more, if the record
        has one pass, in which all of them are then."""
        by_how = {how: [0, 0] for how in ("whole", "runs", "packets")}
        by_way = {}
        for way, span in self.messages():
            self.check_message(span)
            message = span["args"]
            if not whole and end(span) > end(self.named("epochs")[0]):
                fail("%s: a message at %s, when the epoch has ended" % (self.title, span["ts"]))
            by_how[message["mechanism"]][0] += 1
            by_how[message["mechanism"]][1] += message["bytes"]
            by_way[way] = by_way.get(way, 0) + message["bytes"]
        sent = result["mechanisms"]
        for how, found in by_how.items():
            has = [sent[how]["messages"], sent[how]["bytes"]]
            if (found != has) if whole else (found[0] > has[0] or found[1] > has[1]):
                fail("%s: messages and bytes %s that were sent as %s, the result has %s" %
                     (self.title, found, how, has))
        for way in set(by_way) | set(result["bytes"]):
            flow = result["bytes"].get(way)
            has = flow["demand"] + flow["prefetch"] if flow else sent["local"]["bytes"]
            found = by_way.get(way, 0)
            if found > has or (whole and flow and found != has):
                fail("%s: %d bytes of messages %s, the result has %d" %
                     (self.title, found, way, has))
        return by_how["whole"][0]

    def check_near(self, result):
        """What kernels used in place of other GPUs' memories."""
        has = sum(flow["in-place"] for way, flow in result["bytes"].items() if "host" not in way)
        found = self.sum_of("near_read") + self.sum_of("near_written")
        if abs(found - has) > 2 * len(self.kernels()):
            fail("%s: %d bytes were used in place of other GPUs, the result has %d" %
                 (self.title, found, has))

    def check_pass(self, result, nr):
        """Of the last pass alone. Fields are exchanged by hand: the same in each iteration, and
        twice before the first."""
        parameters = result["parameters"]
        if (result["workload"] not in ("jacobi", "diffusion")
                or result["manager"] not in ("memcpy", "overlap")):
            return
        iterations = parameters["iterations"]
        rounds = iterations * (parameters["epochs"] + parameters["warm_up"]) + 2
        if nr * rounds != result["mechanisms"]["whole"]["messages"] * iterations:
            fail("%s: %d messages in a pass" % (self.title, nr))

    def check_overlap(self):
        kernels, into, out = (self.named(name) for name in
                              (" kernels", " copies in", " copies out"))
        for what, time in (("kernels and copies in", together(kernels, into)),
                           ("kernels and copies out", together(kernels, out)),
                           ("copies in and out", together(into, out))):
            if not time > 0:
                fail("%s: %s are never together" % (self.title, what))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("timeline")
    parser.add_argument("results")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--overlap", action="store_true")
    args = parser.parse_args()
    with open(args.timeline, encoding="utf-8") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    with open(args.results, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    results = [result for result in results if result["status"] == "ok"]
    numbers = sorted({event["pid"] for event in events if event["pid"]})
    if numbers != list(range(1, len(results) + 1)):
        fail("processes %s for %d runs" % (numbers, len(results)))
    for number, result in zip(numbers, results):
        run = Run([event for event in events if event["pid"] == number])
        parameters = result["parameters"]
        if not run.title.startswith(result["manager"] + ", "):
            fail("process %d is '%s', and not a run of %s" %
                 (number, run.title, result["manager"]))
        run.check_spans()
        solver = "mechanisms" in result
        # Of solvers without the warm-up.
        nr_epochs = parameters["epochs"] + (0 if solver else parameters["warm_up"])
        run.check_epochs(nr_epochs if args.whole else 1, not solver)
        run.check_counters(result["peak_bytes"])
        if args.whole:
            run.check_bytes(result)
            run.check_links(result)
        if solver:
            nr = run.check_messages(result, args.whole)
            if args.whole:
                run.check_near(result)
            else:
                run.check_pass(result, nr)
        if args.overlap and result["manager"] == "weir":
            run.check_overlap()
        print("# %s: %d spans, %d samples" %
              (run.title, sum(map(len, run.spans.values())), sum(map(len, run.samples.values()))))


main()
