#!/usr/bin/env python3
"""l2l-report: what it draws, and what it makes of files that are not as they should be.

    report_test.py FOLDER_OF_THE_TOOLS
"""
import html.parser
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(sys.argv.pop(1)).resolve() / "l2l-report"


class Page(html.parser.HTMLParser):
    """Titles of figures, points of lines, cells of tables, and every tag and attribute."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.lines, self.tags, self.cells, self.open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "polyline":
            points = dict(attributes)["points"].split(" ")
            self.lines.append([tuple(float(x) for x in point.split(",")) for point in points])

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "figcaption":
            self.figures.append(data.strip())
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def step(i, **more):
    return json.dumps({"step": i, "loss": 5 / i, "learning_rate": 1e-3, "step_ms": 10 + i % 3, "h2d_bytes": 1 << 20, **more})


@unittest.skipUnless(importlib.util.find_spec("tensorboard"), "tensorboard is not installed")
class TensorBoardTest(unittest.TestCase):
    CONFIG = """
[model]
layers = 1
hidden = 16
heads = 2
sequence = 16
[data]
train = ["text"]
validation = ["text"]
[batch]
micro_batch = 2
micro_batches = 1
[run]
steps = 5
validate_every = 2
tensorboard = "events"
"""

    def test_it_reads_the_numbers_of_the_metrics(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / "text").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
            (pathlib.Path(place) / "run.toml").write_text(self.CONFIG)
            subprocess.run([TOOL.parent / "l2l-train", "run.toml", "--quiet", "--metrics", "m.jsonl"], cwd=place, check=True, capture_output=True)
            lines = [json.loads(line) for line in (pathlib.Path(place) / "m.jsonl").read_text().splitlines()]
            events = EventAccumulator(str(pathlib.Path(place) / "events"), size_guidance={"scalars": 0})
            events.Reload()
        for name in ("loss", "validation_loss", "gradient_norm", "learning_rate", "step_ms"):
            expected = [(line["step"], line[name]) for line in lines if name in line]
            found = [(event.step, event.value) for event in events.Scalars(name)]
            self.assertEqual([step for step, _ in found], [step for step, _ in expected])
            for (_, a), (_, b) in zip(found, expected):
                self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))
        self.assertEqual([event.step for event in events.Scalars("validation_loss")], [2, 4, 5])


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def run_tool(self, *arguments):
        return subprocess.run([TOOL, *map(str, arguments)], cwd=self.path, capture_output=True, text=True, timeout=120)

    def page(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Page((self.path / done.stdout.strip()).read_text())

    def test_a_run(self):
        run = self.path / "run"
        run.mkdir()
        lines = [step(i) for i in range(1, 41)]
        lines.insert(20, json.dumps({"step": 20, "validation_loss": 0.5, "metrics": {"accuracy": 0.75}}))
        lines.append(json.dumps({"step": 40, "validation_loss": 0.25, "metrics": {"accuracy": 0.875}}))
        for at, text in ((20, 100), (40, 300)):
            lines.insert(at + 2, json.dumps({"step": at, "allocator": {"name": "a", "roles": {"text": {"allocated": text, "resident": 1}, "x": 5}}}))
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        (run / "run.json").write_text(json.dumps({
            "machine": "a processor", "host": 7, "memory": {"device": [{"what": "slots", "bytes": 3 << 20}, {"what": 1}, None], "host": "all"},
            "warnings": ["<b>too hot</b>", 5]}))
        (run / "config.toml").write_text('[model]\nlayers = 2  # <script>alert("x")</script>\n')
        page = self.page(run)
        self.assertEqual(page.figures[:3], ["Loss", "accuracy", "Learning rate"])
        self.assertIn("Held from malloc()", page.figures)
        self.assertEqual(page.cells[page.cells.index("allocator.text") + 1], "300")
        self.assertNotIn("Loss scale", page.figures)  # nothing to draw
        loss = page.lines[0]
        self.assertEqual(len(loss), 40)
        self.assertEqual(loss, sorted(loss), "a falling loss goes right and, in SVG's coordinates, down")
        self.assertEqual(len(page.lines[1]), 2)  # validation
        self.assertIn("0.875", page.cells)
        self.assertIn("a processor", page.cells)
        self.assertEqual(page.cells[page.cells.index("device"):][:4], ["device", "3", "slots", "3"])
        self.assertNotIn("b", [tag for tag, _ in page.tags])
        # It needs nothing else, and text of others is text.
        for tag, attributes in page.tags:
            self.assertNotIn(tag, ("script", "link", "img", "iframe"))
            self.assertFalse(any(name.startswith("on") or name in ("src", "href") for name in attributes), attributes)
        self.assertNotIn("http", (run / "report.html").read_text())
        self.assertIn("&lt;script&gt;", (run / "report.html").read_text())
        self.assertFalse(list(run.glob("*.tmp*")))

    def test_several_runs_over_each_other(self):
        for name in ("a", "b"):
            (self.path / name).write_text("\n".join(step(i) for i in range(1, 6)))
        page = self.page("a", "b", "--output", "both.html")
        self.assertEqual(len(page.lines), 2 * len(page.figures))
        self.assertEqual(sum(attributes.get("class") == "legend" for _, attributes in page.tags), len(page.figures))

    def test_a_long_run_is_averaged(self):
        (self.path / "long").write_text("".join(step(i) + "\n" for i in range(1, 30_001)))
        page = self.page("long")
        self.assertLessEqual(max(map(len, page.lines)), 1024)
        self.assertGreater(min(map(len, page.lines)), 400)

    def test_hostile_files(self):
        lines = [b"not json", b'{"loss": 1}', b'[1]', b'{"step": -1, "loss": 1}', b'{"step": 1e400}', b"\xff\xfe", b'{"step": 2, "loss": NaN}',
                 b'{"step": 3, "loss": 1e308, "learning_rate": -1e308}', b'{"step": 4, "loss": -1e308, "learning_rate": 1e308}',
                 b'{"step": 5, "allocator": {"roles": {"<b>": {"allocated": 1}, "y": 2}}}', b'{"step": 5, "allocator": [1]}',
                 b'{"step": 5, "loss": 1e-320, "metrics": {"<b>": 1, "x": {"y": [1]}, "z": "text"}}', b'{"step": 6, "loss": null}',
                 b'{"step": 18446744073709551615, "loss": 1}', b'{"step": 7, "more": "' + b"x" * (3 << 20) + b'"}', step(8).encode()[:20]]
        (self.path / "bad").write_bytes(b"\n".join(lines))
        done = self.run_tool("bad")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.path / "report.html").read_text()
        self.assertIn("16 lines, 9 of them not read", text)
        self.assertIn("&lt;b&gt;", text)
        self.assertNotIn("<b>", text)
        self.assertIsNone(re.search(r"\b(nan|inf)\b", text.split("<main>")[1]), "no numbers that SVG does not have")
        Page(text)

    def test_a_page_that_cannot_be_written_says_why(self):
        (self.path / "m.jsonl").write_text(step(1) + "\n")
        done = subprocess.run([TOOL, "m.jsonl", "--output", "/dev/full"], cwd=self.path, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "l2l-report: failed: /dev/full: cannot be written: No space left on device\n"))

    def test_refusals(self):
        (self.path / "empty").write_text("")
        self.assertEqual(self.run_tool("empty").returncode, 0)
        (self.path / "rows").write_text('{"text": "a"}\n')
        before = sorted(self.path.rglob("*"))
        for arguments, says in ((["nothing"], "nothing: is no file"), (["rows"], "rows: no line of it is one that --metrics wrote"), ([self.path], "metrics.jsonl: is no file"), ([], "RUN"),
                                (["empty", "--output", "no/such/place.html"], "is not a directory")):
            done = self.run_tool(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
        self.assertEqual(sorted(self.path.rglob("*")), before)


if __name__ == "__main__":
    unittest.main()
