#!/usr/bin/env python3
"""l2l-train without a config, as a new user would type it, on the MiniLM of L2L_TEST_DATA.

    one_command_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv[1]).resolve()
MODEL = pathlib.Path(os.environ.get("L2L_TEST_DATA", "/nonexistent")) / "minilm"
GOOD, BAD = ("a warm and moving film", "great fun", "wonderful actors"), ("a dull mess", "bad and boring", "awful script")


@unittest.skipUnless(MODEL.is_dir(), "L2L_TEST_DATA has no minilm")
class OneCommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        rows = [{"text": f"{(GOOD if i % 2 else BAD)[i % 3]} {i}", "label": "good" if i % 2 else "bad"} for i in range(60)]
        self.rows = self.path / "rows.jsonl"
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def tearDown(self):
        self.folder.cleanup()

    def run_tool(self, *arguments, name="l2l-train"):
        return subprocess.run([TOOLS / name, *map(str, arguments)], cwd=self.path, capture_output=True, text=True, timeout=280,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")})

    def train(self, *more, data=None, model=MODEL, output="out"):
        return self.run_tool("--pretrained", model, "--data", data or self.rows, "--output", output, *more)

    def test_a_run_and_its_config_give_the_same_weights(self):
        done = self.train("--set", "run.steps=4")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(summary["steps"], 4)
        self.assertIn("accuracy", summary["metrics"])
        self.assertIn("60 rows with a label of 2 (the most frequent: 50.0%); 3 are held out", done.stderr)
        self.assertIn('model.label_names = ["bad", "good"]', done.stderr)
        self.assertIn("optimizer.learning_rate = 0.0001  all weights of a model with hidden = 384", done.stderr)
        lines = [json.loads(line) for line in (self.path / "out/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sum("loss" in line for line in lines), 4)
        self.assertEqual(lines[-1]["metrics"], summary["metrics"])
        report = (self.path / "out/report.html").read_text()
        for part in ("<figcaption>Loss", "<figcaption>accuracy", "label_names"):
            self.assertIn(part, report)
        self.assertTrue((self.path / "out/checkpoints/step-00000004/model.safetensors").is_file())
        config = json.loads((self.path / "out/checkpoints/step-00000004/config.json").read_text())
        self.assertEqual(config["id2label"], {"0": "bad", "1": "good"})
        again = self.run_tool("out/config.toml", "--quiet", "--set", "checkpoint.directory=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout.splitlines()[-1])["weights_hash"], summary["weights_hash"])
        refused = self.train()
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is there already and not empty", refused.stderr)
        self.assertIn("l2l-train out/config.toml --output out --resume out/checkpoints\n", refused.stderr)
        self.assertTrue((self.path / "out/config.toml").is_file())

    def test_a_run_that_stops_goes_on(self):
        done = self.train("--set", "run.seconds=1", "--set", "run.steps=1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(line for line in done.stderr.splitlines() if line.startswith("to go on: "))
        self.assertRegex(line, "l2l-train out/config.toml --output out --resume .*/out/checkpoints$")
        more = subprocess.run(line.removeprefix("to go on: "), shell=True, cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("resumed from ", more.stderr)

    def refuse(self, says, *more, **named):
        done = self.train(*more, **named)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertNotIn("--dry-run", done.stderr)  # is for a run with a CONFIG
        self.assertEqual([entry.name for entry in self.path.iterdir() if entry.name not in ("rows.jsonl", "bad.jsonl", "cache")], [])

    def test_bad_input_leaves_nothing(self):
        bad = self.path / "bad.jsonl"
        bad.write_text('{"text": "x", "label": 1}\n' * 3 + "{\n")
        self.refuse("bad.jsonl: line 4: is not a JSON object", data=bad)
        bad.write_text("text,label\nx,1\n")
        self.refuse("tables and plain text are for a config: data.train", data=bad)
        bad.write_text("".join(json.dumps({"text": "x", "label": i % 2}) + "\n" for i in range(19)))
        self.refuse("has 19 rows; at least 20", data=bad)
        bad.write_text("".join(json.dumps({"prompt": "x", "completion": "y"}) + "\n" for _ in range(30)))
        self.refuse("are texts to continue, which bert cannot", data=bad)
        bad.write_text("text,label\nx,1\n")
        self.refuse("line 1: is not a JSON object in UTF-8; tables and plain text are for a config", data=bad)
        self.refuse("unknown key", "--set", "optimizer.lerning_rate=1")
        self.refuse("model.sequence", "--set", "model.sequence=100000")
        self.refuse("cannot be", data=self.path / "none.jsonl")
        self.refuse("config.json", model=self.path)
        # Of the rows: what only the plan finds.
        bad.write_text("".join(json.dumps({"text": "" if i == 7 else 5 if i == 9 else "x", "label": i % 2}) + "\n" for i in range(40)))
        self.refuse('"text" is not a string', data=bad)

    def test_usage(self):
        for arguments, says in (((), "give a CONFIG, or --pretrained DIR --data FILE.jsonl --output DIR"),
                                (("--pretrained", MODEL), "give a CONFIG, or"), (("x.toml", "--data", "y"), "without a CONFIG")):
            done = self.run_tool(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
