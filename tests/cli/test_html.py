#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_html.py BUILD: pages of `fashim report --format=html` from many kinds of logs.

Each page is read by an HTML parser (balanced, self-contained, no dead links), its charts by an XML
parser (well-formed, finite, inside their frames), and its table is compared with --format=csv. Where a
Chromium is installed every page is also opened in it, wide and narrow, light and dark, with
test_html_probe.js inside. Prints TAP.
"""

import csv
import html
import html.parser
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
VOID = {"meta", "br", "input", "link", "img", "hr"}
BROWSERS = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome"]


# ---- logs -------------------------------------------------------------------------------------------


def sample(random_source, site, occurrence, app, fused):
    drift = 1e-4 * random_source.lognormvariate(0, 0.4)
    return {
        "type": "sample", "site": site, "occurrence": occurrence,
        "at_us": 900.0 * occurrence, "stream": 1,
        "parts_us": {"gemm1": 0.2 * app, "middle": 0.3 * app, "softmax": 0.3 * app, "gemm2": 0.2 * app},
        "app_us": random_source.gauss(app, app * 0.004), "fused_us": random_source.gauss(fused, fused * 0.01),
        "max_abs": 3 * drift, "max_rel": 2 * drift, "rmse": drift / 9, "cosine": 0.999999,
        "worst_index": 7, "worst_app": 0.1, "worst_fused": 0.1001, "nonfinite": 0, "beyond": 0,
        "reference": {"rows": 64, "app_max": drift, "app_rmse": 2e-5 * random_source.lognormvariate(0, 0.3),
                      "fused_max": drift, "fused_rmse": 1.6e-5 * random_source.lognormvariate(0, 0.3)},
        "verdict": "ok"}


def long_log(path, rank):
    """A log with enough samples for intervals, and one site that is slower fused."""
    source = random.Random(7 if rank is None else rank)
    shapes = [("f16", 244.8, 71.8, 40), ("bf16", 3200.0, 700.0, 3000), ("f16", 12.0, 13.5, 8),
              ("f32", 0.004, 0.001, 6), ("f16", 9e9, 1e3, 6)]
    with open(path, "w", encoding="utf-8") as log:
        records = [{"type": "header", "format": "fashim-log", "version": 1, "fashim": "0.1.0", "pid": 1,
                    "rank": rank, "exe": "/bin/app", "argv": ["app", "<b>&amp;\"'"], "host": "h",
                    "start": "2026-01-01T00:00:00Z", "mode": "replace", "gpu": "Example GPU", "sm": 90,
                    "driver": 13000, "cublas": 130100, "options": {"FASHIM": "replace"}}]
        counters = []
        for number, (dtype, app, fused, count) in enumerate(shapes, 1):
            records.append({"type": "site", "site": number, "B": 1, "H": 8, "Sq": 512, "Sk": 512, "D": 64,
                            "Dv": 64, "dtype": dtype, "scale": 0.125, "softcap": 0,
                            "mask": "</td><script>alert(1)</script>", "kernel": "k", "route": "rule",
                            "chain": ["gemm", "softmax <&>", "gemm"], "aliasing": "",
                            "python": ["model.py:12 <module>"], "stack": ["lib.so+0x1"]})
            records += [sample(source, number, 1 + 16 * i, app, fused) for i in range(count)]
            records.append({"type": "state", "site": number, "occurrence": 4, "state": "verified"})
            counters.append({"site": number, "state": "verified", "reason": "none", "seen": 16 * count,
                             "replaced": 15 * count, "compared": count, "passed": 0, "materialised": 0,
                             "snapshots": 0, "saved_us": 15 * count * (app - fused)})
        records.append({"type": "summary", "end": "exit", "wall_us": 1e7, "gemms": 1, "launches": 1,
                        "overhead_us": 1.0, "scratch_peak": 0, "reasons": {"learning": 3},
                        "sites": counters})
        for record in records:
            log.write(json.dumps(record) + "\n")


def cases(work):
    logs = os.path.join(HERE, "logs")
    named = [[name] for name in ("replace", "compare", "gemms", "killed", "holes", "escapes", "streams")]
    named.append(["replace", "compare"])
    result = [("+".join(names), [os.path.join(logs, name + ".jsonl") for name in names]) for names in named]
    long_log(os.path.join(work, "long.jsonl"), None)
    ranks = [os.path.join(work, "rank%d.jsonl" % rank) for rank in range(3)]
    for rank, path in enumerate(ranks):
        long_log(path, rank)
    odd = os.path.join(work, "odd \udcff<b>.jsonl")
    shutil.copy(os.path.join(logs, "replace.jsonl"), odd)
    return result + [("long", [os.path.join(work, "long.jsonl")]), ("ranks", ranks), ("odd name", [odd])]


# ---- without a browser ------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Balance, identifiers, links, and the cells of the sortable table."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.problems = [], [], [], []
        self.scripts, self.keys, self.rows, self.depth = 0, [], [], 0

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name, value in attrs:
            if name in ("src", "srcset", "action") or name.startswith("on"):
                self.problems.append("attribute %s of %s" % (name, tag))
            if name == "href":
                self.links.append(value)
        self.scripts += tag == "script"
        if tag in ("link", "iframe", "object", "embed", "img"):
            self.problems.append("element " + tag)
        if tag == "th" and "data-key" in attributes:
            self.keys.append(attributes["data-key"])
        if tag == "tr":
            self.rows.append([])
        if tag == "td" and "data-v" in attributes:
            self.rows[-1].append(attributes["data-v"])

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.problems.append("</%s> inside %s" % (tag, self.open[-1:]))
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def check_structure(text):
    page = Page()
    page.feed(text)
    page.close()
    problems = page.problems
    if page.open:
        problems.append("left open: %s" % page.open)
    if len(page.ids) != len(set(page.ids)):
        problems.append("an id twice")
    problems += ["dead link " + link for link in page.links
                 if not link.startswith("#") or link[1:] not in page.ids]
    if page.scripts != 1:
        problems.append("%d scripts" % page.scripts)
    if re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text):
        problems.append("something from elsewhere")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        problems.append("a control character")
    return problems, page


def over_an_edge(chart):
    """Times that do not stand behind all that their bar consists of."""
    boxes = [[float(box.get(name)) for name in ("x", "y", "width", "height")] for box in chart.iter("{*}rect")]
    return ["%s stands in its bar" % time.text for time in chart.iter("{*}text")
            if re.search(r"\d", time.text) and any(y <= float(time.get("y")) <= y + height and x + width > float(time.get("x"))
                                                   for x, y, width, height in boxes)]


def check_charts(text):
    problems = []
    charts = re.findall(r"<svg.*?</svg>", text, re.S)
    for chart in charts:
        tree = ElementTree.fromstring(chart)
        _, _, width, height = map(float, tree.get("viewBox").split())
        if not (tree[0].tag.endswith("title") and tree[0].text):
            problems.append("a chart without a title")
        for element in tree.iter():
            for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"):
                if name not in element.attrib:
                    continue
                value = float(element.get(name))
                limit = height if "y" in name or name == "height" else width
                if not math.isfinite(value) or value < 0 or value > limit:
                    problems.append("%s=%s in %s" % (name, value, element.tag))
        problems += over_an_edge(tree) if tree[0].text.startswith("One call") else []
    if re.search(r"\b(nan|inf)\b", "".join(charts)):
        problems.append("nan or inf in a chart")
    return problems


def check_table(page, rows):
    shown = [row for row in page.rows if row]
    if len(shown) != len(rows):
        return ["%d rows, csv has %d" % (len(shown), len(rows))]
    problems = []
    for values, row in zip(shown, rows):
        for key, value in zip(page.keys, values):
            # What neither can show is U+FFFD in the one and a question mark in the other.
            if value.replace("\ufffd", "?") != row[key].replace("\ufffd", "?"):
                problems.append("%s is %r, csv has %r" % (key, value, row[key]))
    return problems


# ---- in a browser -----------------------------------------------------------------------------------


def rendered(browser, address, work, *options):
    """The document as the browser has it in the end; empty where it does not come that far."""
    command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
               "--user-data-dir=" + os.path.join(work, "profile"), *options, "--dump-dom", address]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    try:
        return subprocess.run(command, capture_output=True, timeout=900, check=False).stdout.decode()
    except subprocess.TimeoutExpired:
        return ""


def find_browser(work):
    """One that starts here, and None with why not."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        return None, "no browser: none of %s is installed" % ", ".join(BROWSERS)
    if "<i>here</i>" not in rendered(browser, "data:text/html,<i>here</i>", work):
        return None, "%s is installed and shows nothing" % browser
    return browser, None


# A window cannot be as narrow as a telephone, a frame can.
FRAME = """<!DOCTYPE html><style>:root{color-scheme:light dark}iframe{border:0}</style>
<iframe src="probed.html" width="%d" height="1000"></iframe><pre id="probe"></pre>
<script>onmessage = function (event) { document.getElementById('probe').textContent = event.data; };</script>"""


def look(browser, work, width, scheme):
    """What the probe says of the page probed.html."""
    path = os.path.join(work, "frame.html")
    with open(path, "w", encoding="utf-8") as frame:
        frame.write(FRAME % width)
    dom = rendered(browser, "file://" + path, work, "--hide-scrollbars", "--window-size=1700,1100",
                   "--blink-settings=preferredColorScheme=%d" % scheme)
    found = re.search(r'<pre id="probe">(.+?)</pre>', dom, re.S)
    if not found:
        return {"complaints": ["the browser gave no answer"], "ground": "", "charts": -1, "width": -1}
    return json.loads(html.unescape(found.group(1)))


def check_in_browser(browser, text, work):
    with open(os.path.join(HERE, "test_html_probe.js"), encoding="utf-8") as probe:
        probed = text.replace("<style>", "<script>%s</script><style>" % probe.read(), 1)
    path = os.path.join(work, "probed.html")
    with open(path, "w", encoding="utf-8") as page:
        page.write(probed)
    light, dark = look(browser, work, 1600, 1), look(browser, work, 400, 0)
    problems = light["complaints"] + dark["complaints"]
    if (light["width"], dark["width"]) != (1600, 400):
        problems.append("pages of %s and %s pixels were looked at" % (light["width"], dark["width"]))
    if light["ground"] == dark["ground"]:
        problems.append("light and dark look the same: " + light["ground"])
    if light["charts"] != text.count('<svg class="chart"'):
        problems.append("%d charts in the browser" % light["charts"])
    return problems


# ---- TAP --------------------------------------------------------------------------------------------


class Tap:
    def __init__(self):
        self.number = self.failed = 0

    def result(self, name, problems):
        self.number += 1
        self.failed += bool(problems)
        print("%s %d - %s" % ("not ok" if problems else "ok", self.number, name))
        for problem in problems[:20]:
            print("#   " + problem.encode("utf-8", "replace").decode())

    def skip(self, why):
        self.number += 1
        print("ok %d # SKIP %s" % (self.number, why))


def report(fashim, arguments):
    run = subprocess.run([fashim, "report", *arguments], capture_output=True, check=False,
                         env={**os.environ, "LC_ALL": "C.UTF-8"})
    if run.returncode:
        raise SystemExit("Bail out! fashim report failed: %s" % run.stderr.decode("utf-8", "replace"))
    return run.stdout


def main():
    fashim = os.path.join(sys.argv[1], "fashim")
    tap = Tap()
    with tempfile.TemporaryDirectory() as work:
        browser, why_not = find_browser(work)
        for name, paths in cases(work):
            text = report(fashim, ["--format=html", *paths]).decode("utf-8")
            table = report(fashim, ["--format=csv", *paths]).decode("utf-8", "replace")
            problems, page = check_structure(text)
            tap.result(name + ": structure", problems)
            tap.result(name + ": charts", check_charts(text))
            tap.result(name + ": table", check_table(page, list(csv.DictReader(io.StringIO(table, newline="")))))
            if browser:
                tap.result(name + ": in " + os.path.basename(browser), check_in_browser(browser, text, work))
    if not browser:
        tap.skip(why_not)
    print("1..%d" % tap.number)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
