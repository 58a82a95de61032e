#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# report_page.py PAGE RESULTS...: hold a page of `weir report` to what it promises, and to the
# results that it was made from: well-formed, nothing from elsewhere, both colour schemes, every
# result in a table with the time that is in the data, and the sentences on the case that says most
# about not fitting recomputed from the data. Exits with 1 and a line at the first that is wrong.
import html
import json
import math
import re
import statistics
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


def check(truth, what):
    if not truth:
        sys.exit(f"not ok - {what}")


class Page(HTMLParser):
    """Elements, ids, references and texts by kind of element."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.names, self.tags = [], [], [], []
        self.rows, self.items, self.paragraphs = [], [], []
        self.text, self.table, self.row = None, None, None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.open.append(tag)
        if tag in VOID:
            self.open.pop()
        if "id" in attrs:
            self.ids.append(attrs["id"])
        for name in ("src", "href", "xlink:href", "data", "srcset", "action"):
            value = attrs.get(name)
            check(value is None or value.startswith("#"), f"a reference to elsewhere: {value}")
            if value:
                self.names.append(value[1:])
        self.names += attrs.get("aria-labelledby", "").split()
        check(not any(name.startswith("on") for name in attrs), f"a handler in <{tag}>")
        if tag in ("td", "th", "li", "p"):
            self.text = ""
        if attrs.get("class") == "table":
            self.table = attrs["aria-label"]
        if tag == "tr":
            self.row = []
            if self.table == "All results":
                self.rows.append(self.row)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        check(self.open and self.open[-1] == tag, f"</{tag}> ends {self.open[-1:]}")
        self.open.pop()
        if tag in ("td", "th"):
            self.row.append(self.text)
        if tag == "li":
            self.items.append(self.text.strip())
        if tag == "p":
            self.paragraphs.append(self.text.strip())

    def handle_data(self, data):
        if self.text is not None:
            self.text += data


def figure(value):
    """Three digits, as the page shows them."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def seconds(s):
    for unit in ("s", "ms", "us", "ns"):
        if s >= 0.9995 or s == 0:
            return f"{figure(s)} {unit}"
        s *= 1000
    return f"{figure(s / 1000)} ns"


def count(n):
    for unit in ("", "k", "M", "G", "T"):
        if n < 999.95:
            return f"{n:.4g}{unit}"
        n /= 1000
    return ""


def check_form(page, text):
    check(len(text) < 1_000_000, f"{len(text)} bytes")
    check(not page.open, f"not closed: {page.open}")
    check(len(page.ids) == len(set(page.ids)), "an id is there twice")
    missing = set(page.names) - set(page.ids)
    check(not missing, f"nothing has the id {missing}")
    check("script" not in page.tags and "link" not in page.tags, "a script or a link")
    for url in re.findall(r"[a-z]+://[^\"' <]*", text):
        check(url in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"), url)
    check("url(" not in text and "@import" not in text, "a style from elsewhere")
    check(not re.search(r"\b-?(nan|inf)\b", text), "a number that is none")


def check_svgs(text):
    svgs = re.findall(r"<svg.*?</svg>", text, re.S)
    for svg in svgs:
        root = ElementTree.fromstring(svg)
        if "aria-hidden" in root.attrib:
            continue
        kinds = [child.tag.split("}")[1] for child in root]
        check(kinds[:2] == ["title", "desc"], "a chart without title and description")
        check(root[0].text and root[1].text, "a title or description without text")
        check("#" not in re.sub(r"#gpPt\d+", "", svg), "a colour that is not of the palette")
        check("rgb(" not in svg, "a colour that is not of the palette")
    return len(svgs)


def check_labels(text):
    """No text of a drawing reaches over its edge; letters are 0.6 times as wide as high, at most."""
    for svg in re.findall(r"<svg class=\"(?:wide|narrow)\".*?</svg>", text, re.S):
        width = float(re.search(r"viewBox=\"0 0 (\d+)", svg)[1])
        for x, size, anchor, label in re.findall(
                r"translate\(([-\d.]+),[-\d.]+\)\"[^>]*font-size=\"([\d.]+)\""
                r"[^>]*text-anchor=\"(\w+)\">\s*<text>(.*?)</text>", svg, re.S):
            wide = 0.6 * float(size) * len(html.unescape(re.sub("<[^>]*>", "", label)).strip())
            left = float(x) - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            check(left >= -1 and left + wide <= width + 1, f"'{label}' is cut off at an edge")


def check_colours(text):
    style = text[text.index("<style>"):text.index("</style>")]
    light, dark = re.findall(r":root\{([^}]*)\}", style)
    check("prefers-color-scheme:dark" in style, "no dark colours")
    names = {name for name in re.findall(r"var\(--([a-z0-9-]+)\)", text)}
    for scheme in (light, dark):
        missing = names - set(re.findall(r"--([a-z0-9-]+):", scheme))
        check(not missing, f"colours without a value: {missing}")


def check_rows(page, results):
    """Each result has a row of its own, with its time or why there is none."""
    rows = list(page.rows)
    for result in results:
        status = {"ok": "no time", "out-of-memory": "out of memory", "failed": "failed"}
        time = result.get("epoch_median_s")
        if time is None and result.get("epoch_s"):
            time = statistics.median(result["epoch_s"])
        shown = seconds(time) if time else status[result["status"]]
        # A replay has no size: its budget is beside the manager in the row.
        nodes = result["parameters"].get("nodes")
        nodes = count(nodes) if nodes else figure(result["needs_bytes"] / result["budget_bytes"])
        found = [row for row in rows
                 if nodes in row[:2] and result["manager"] in row and shown in row]
        check(found, f"no row with {nodes} {result['manager']} {shown}")
        rows.remove(found[0])


def check_sentence(page, results):
    """The case nearest to half as much again as fits: its sentence, from the data."""
    cases = {}
    for r in results:
        key = (r["machine"], r["parameters"]["nodes"], r["budget_bytes"])
        cases.setdefault(key, []).append(r)
    machines = {machine for machine, _, _ in cases}
    for machine in machines:
        mine = [c for key, c in cases.items()
                if key[0] == machine and any(r["epoch_median_s"] for r in c)]
        if not mine:
            continue
        case = min(mine, key=lambda c: abs(math.log(
            c[0]["needs_bytes"] / c[0]["budget_bytes"] / 1.5)))
        done = sorted((r for r in case if r["epoch_median_s"]), key=lambda r: r["epoch_median_s"])
        best, over = done[0], case[0]["needs_bytes"] / case[0]["budget_bytes"]
        text = "\n".join(page.items + page.paragraphs)
        sizes = {c[0]["parameters"]["nodes"] for c in mine}
        said = (f"(the work needs {figure(over)} times that)" if len(sizes) < len(mine) else
                f"{count(best['parameters']['nodes'])} nodes ({figure(over)} times")
        check(said in text, f"nothing is said of {said}")
        check(f"take {seconds(best['epoch_median_s'])}" in text or
              f"takes {seconds(best['epoch_median_s'])}" in text, "not the fastest time")
        ratio = best["epoch_median_s"] / best["bound_s"] if best["bound_s"] else 0
        if ratio > 1.005:
            check(f", {figure(ratio)} times the lower bound" in text, "not the distance")
        others = [r for r in done if r["epoch_median_s"] > 1.005 * best["epoch_median_s"]]
        if others:
            ratio = others[0]["epoch_median_s"] / best["epoch_median_s"]
            check(f"{others[0]['manager']}, the next, takes "
                  f"{seconds(others[0]['epoch_median_s'])}, {figure(ratio)} times as long" in text,
                  "not the next")


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    results = [json.loads(line) for name in sys.argv[2:] for line in open(name)]
    page = Page()
    page.feed(text)
    page.close()
    check_form(page, text)
    charts = check_svgs(text)
    check_labels(text)
    check_colours(text)
    check_rows(page, [r for r in results
                      if "nodes" in r["parameters"] or r["workload"] == "replay"])
    results = [r for r in results if "nodes" in r["parameters"]]
    if all(r.get("needs_bytes") and "budget_bytes" in r and "bound_s" in r for r in results):
        check_sentence(page, results)
    print(f"ok - {sys.argv[1]}: {len(results)} results, {charts} drawings")


main()
