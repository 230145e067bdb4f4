#!/usr/bin/env python3
"""l2l-train without a config, as a new user would type it, on the MiniLM of L2L_TEST_DATA.

    one_command_test.py FOLDER_OF_THE_TOOLS
"""
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(sys.argv[1]).resolve()
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
sys.path.insert(0, str(FIXTURES))
import hub_files  # noqa: E402

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

    def test_the_same_command_goes_on_with_its_run(self):
        """As a scheduler starts it again, wherever it was stopped."""
        command = ("--set", "run.steps=3", "--resume-if-any")
        hashes = []
        for more, resumed in ((("--steps", 2), False), ((), True), ((), False)):
            done = self.train(*command, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("resumed from " in done.stderr, resumed)
            hashes.append(json.loads(done.stdout.splitlines()[-1])["weights_hash"])
            if resumed:
                shutil.rmtree(self.path / "out/checkpoints")  # as if stopped before the first was saved
        self.assertIn("goes on by out/config.toml, as chosen before", done.stderr)
        self.assertEqual(hashes[1], hashes[2])
        stopped = self.train(*command[2:], "--set", "run.steps=1000000", "--set", "run.seconds=1")
        self.assertRegex(stopped.stderr, "\nto go on: .*l2l-train out/config.toml --output out --resume-if-any --resume out/checkpoints\n")
        text = self.rows.read_text()
        for rows in (text + json.dumps({"text": "new", "label": "good"}) + "\n", text.replace("great", "grand"), text[:text.rindex("{")]):
            self.rows.write_text(rows)
            refused = self.train(*command, "--quiet")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(f"--data {self.rows}: the run in out has other rows; to train on these, name a new folder", refused.stderr)
            self.assertIn("l2l-train out/config.toml --output out --resume-if-any\n", refused.stderr)
        refused = self.train(*command, "--quiet", data="nowhere.jsonl")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("nowhere.jsonl: cannot be", refused.stderr)
        self.rows.write_text(text)
        other = self.path / "other"
        other.symlink_to(MODEL)
        self.assertEqual(self.train(*command, model=other).returncode, 0)  # by another name
        refused = self.train(*command, model=FIXTURES)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f"--pretrained {FIXTURES}: the run in out began from {MODEL}; name a new folder by --output", refused.stderr)
        # The folder of another run is nobody's to go on with.
        shutil.rmtree(self.path / "out/data")
        refused = self.train(*command)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--output out: is there already and not empty", refused.stderr)

    def test_a_folder_that_is_moved_goes_on_from_its_own(self):
        self.assertEqual(self.train("--set", "run.steps=3", "--steps", "1").returncode, 0)
        (self.path / "out").rename(self.path / "moved")
        by_config = self.run_tool("moved/config.toml", "--output", "moved", "--resume-if-any", "--steps", "2")
        self.assertEqual(by_config.returncode, 0, by_config.stderr)
        self.assertIn("resumed from moved/checkpoints/step-00000001", by_config.stderr)
        self.assertNotIn("settings have changed", by_config.stderr)
        done = self.train("--resume-if-any", output="moved")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resumed from moved/checkpoints/step-00000002", done.stderr)
        self.assertFalse((self.path / "out").exists())

    def test_a_preparation_that_was_killed_begins_anew(self):
        out, user = self.path / "out", self.path / "user/data/train.jsonl"
        run = subprocess.Popen([TOOLS / "l2l-train", "--pretrained", MODEL, "--data", self.rows, "--output", out], stderr=subprocess.DEVNULL,
                               env={**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")})
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        while not (out / "data/train.jsonl").exists():
            self.assertIsNone(run.poll())
            time.sleep(0.001)
        run.kill()
        run.wait()
        left = sorted(out.rglob("*"))
        self.assertIn(out / "config.toml.unfinished", left)
        # What a process that lives has made, and what people keep there, stays.
        with open(out / "config.toml.unfinished") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertIn("--output out: another run is being prepared there; name a new folder", self.train().stderr)
        self.assertEqual(sorted(out.rglob("*")), left)
        user.parent.mkdir(parents=True)
        user.write_text("mine")
        (out / "data/mine").write_text("")
        for folder in ("out", "user"):
            refused = self.train(output=folder)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"--output {folder}: is there already and not empty; name a new folder, or remove it\n", refused.stderr)
        self.assertEqual((user.read_text(), sorted(out.rglob("*"))), ("mine", sorted([*left, out / "data/mine"])))
        (out / "data/mine").unlink()
        shutil.copytree(out, self.path / "again")
        for folder, more in (("out", ()), ("again", ("--resume-if-any",))):
            done = self.train("--set", "run.steps=1", *more, output=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.path / folder / "config.toml").is_file())
            self.assertFalse((self.path / folder / "config.toml.unfinished").exists())

    def chosen(self, key, done):
        """The value and the reason, as the run says them."""
        self.assertEqual(done.returncode, 0, done.stderr)
        return next((line.split(" = ", 1)[1] for line in done.stderr.splitlines() if line.startswith(f"  {key} = ")), None)

    def classifier(self, name, labels, steps=1, *more):
        """A directory that tells the classes of self.rows apart, in this order."""
        done = self.train("--set", f"model.label_names={json.dumps(labels)}", "--set", f"run.steps={steps}", *more, output=f"{name}-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copytree(next((self.path / f"{name}-run/checkpoints").glob("step-*")), self.path / name)
        return self.path / name

    def renamed(self, model, name, labels):
        shutil.copytree(model, self.path / name)
        config = json.loads((model / "config.json").read_text())
        config |= {"id2label": {str(i): label for i, label in enumerate(labels)}, "label2id": {label: i for i, label in enumerate(labels)}}
        (self.path / name / "config.json").write_text(json.dumps(config))
        return self.path / name

    def test_a_classifier_keeps_the_order_of_its_classes(self):
        tuned = self.classifier("tuned", ["good", "bad"], 20, "--set", "optimizer.learning_rate=3e-4")
        self.assertEqual(json.loads((tuned / "config.json").read_text())["id2label"], {"0": "good", "1": "bad"})
        still = ("--set", "run.steps=1", "--set", "optimizer.learning_rate=1e-12")
        kept = self.train(*still, model=tuned, output="kept")
        self.assertEqual(self.chosen("model.label_names", kept), '["good", "bad"]  as the directory\'s head has them')
        self.assertIsNone(self.chosen("model.new_head", kept))
        kept = json.loads(kept.stdout.splitlines()[-1])
        self.assertEqual(kept["metrics"]["accuracy"], 1.0)
        self.assertLess(kept["validation_loss"], 0.4)
        spelled = self.train(*still, model=self.renamed(tuned, "capitals", ["GOOD", "BAD"]), output="spelled")
        self.assertEqual(self.chosen("model.label_names", spelled), '["good", "bad"]  as the directory\'s head has them')
        self.assertIsNone(self.chosen("model.new_head", spelled))
        self.assertEqual(json.loads(spelled.stdout.splitlines()[-1])["metrics"]["accuracy"], 1.0)
        # Control: the same rows by names that say nothing are what the order was before.
        moved = self.train(*still, model=self.renamed(tuned, "unnamed", ["LABEL_0", "LABEL_1"]), output="moved")
        self.assertEqual(self.chosen("model.label_names", moved), '["bad", "good"]  as the rows name them')
        self.assertEqual(json.loads(moved.stdout.splitlines()[-1])["metrics"]["accuracy"], 0.0)
        # Of a config.
        def again(names, *more):
            return self.run_tool("kept/config.toml", "--set", f"checkpoint.directory={names[0]}", "--set",
                                 f"model.label_names={json.dumps(names)}", *more)
        refused = again(["bad", "good"])
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn('model.label_names = ["bad", "good"], but ', refused.stderr)
        self.assertIn('tuned/config.json gives ["good", "bad"], the classes of its head', refused.stderr)
        # Of another seed, or the head would begin as that of `tuned` began.
        fresh = again(["bad", "good"], "--set", "model.new_head=true", "--set", "run.seed=7")
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        self.assertAlmostEqual(json.loads(fresh.stdout.splitlines()[-1])["validation_loss"], 0.69, delta=0.6)
        for path in (self.path / "kept/data").iterdir():
            path.write_text(path.read_text().replace('"good"', '"Fine"').replace('"bad"', '"Poor"'))
        other = again(["Fine", "Poor"])  # other names for the same classes
        self.assertEqual(json.loads(other.stdout.splitlines()[-1])["metrics"]["accuracy"], 1.0)

    def test_a_checkpoint_is_read_with_its_own_tokenizer(self):
        model = self.path / "copy"
        model.mkdir()
        for file in MODEL.iterdir():
            if file.suffix == ".safetensors":
                (model / file.name).symlink_to(file)
            else:
                shutil.copy(file, model / file.name)
        self.chosen("", self.train("--set", "run.steps=2", model=model))
        def loss():
            done = self.run_tool("out/checkpoints", "--data", self.rows, name="l2l-eval")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout.splitlines()[-1])["loss"]
        before = loss()
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["film"], vocabulary["mess"] = vocabulary["mess"], vocabulary["film"]
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assertEqual(loss(), before)
        # Control: with the tokenizer that is there now.
        done = self.run_tool("out/checkpoints", "--data", self.rows, "--set", f"data.tokenizer={model}", name="l2l-eval")
        self.assertNotEqual(json.loads(done.stdout.splitlines()[-1])["loss"], before)

    def test_classes_that_a_classifier_has_not_get_a_new_head(self):
        few = self.path / "few.jsonl"
        def write(*labels):
            few.write_text("".join(json.dumps({"text": f"{GOOD[i % 3]} {i}", "label": labels[i % len(labels)]}) + "\n" for i in range(30)))
        write("good", "bad", "mixed")
        one = ("--set", "run.steps=1", "--set", "batch.minibatch=4")
        three = self.renamed(self.classifier("two", ["good", "bad"]), "three", ["good", "bad"])
        done = self.train(*one, data=few, model=three, output="more")
        self.assertEqual(self.chosen("model.label_names", done), '["bad", "good", "mixed"]  as the rows name them')
        self.assertEqual(self.chosen("model.new_head", done),
                         'true  the directory\'s head is for ["good", "bad"], which "mixed" is not among')
        saved = next((self.path / "more/checkpoints").glob("step-*"))
        self.assertEqual(json.loads((saved / "config.json").read_text())["id2label"], {"0": "bad", "1": "good", "2": "mixed"})
        refused = self.run_tool("more/config.toml", "--set", "model.new_head=false", "--set", 'model.label_names=["good", "bad", "mixed"]')
        self.assertIn("with model.new_head = true, a head of other classes is drawn afresh", refused.stderr)
        self.chosen("", self.train(*one, "--set", "lora.rank=2", data=few, model=three, output="lora"))
        resumed = self.run_tool("lora/config.toml", "--output", "lora", "--resume", "lora/checkpoints", "--steps", 2)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)  # beside a directory with the other head
        # Of three classes, rows may have two.
        for labels, names in ((("mixed", "bad"), '["bad", "good", "mixed"]  as the directory\'s head has them'), ((1, 0), None)):
            write(*labels)
            done = self.train(*one, data=few, model=saved, output=f"less{labels[0]}")
            self.assertEqual(self.chosen("model.labels", done), "3  classes of the directory's head")
            self.assertEqual(self.chosen("model.label_names", done), names)
            self.assertIsNone(self.chosen("model.new_head", done))
        # Words are another head's.
        few.write_text("".join(json.dumps({"tokens": ["a", "b"], "tags": ["O", "B-X"]}) + "\n" for _ in range(30)))
        done = self.train(*one, data=few, model=saved, output="words")
        self.assertEqual(self.chosen("model.new_head", done), 'true  the directory\'s head is for "classification"')

    def byte_llama(self, positions=64):
        """A directory with a tokenizer that makes a token of each byte."""
        model = self.path / "cache/llama"
        model.parent.mkdir(exist_ok=True)
        characters = [chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))]
        characters += [chr(256 + i) for i in range(256 - len(characters))]
        fixture = json.loads((FIXTURES / "hub_models.json").read_text())["llama"]
        old = fixture["config"]["vocab_size"]
        hub_files.write_model(model, dict(fixture["config"], vocab_size=256, max_position_embeddings=positions),
                              {name: [256 if size == old else size for size in shape] for name, shape in fixture["shapes"].items()})
        (model / "tokenizer.json").write_text(json.dumps({
            "model": {"type": "BPE", "vocab": {character: i for i, character in enumerate(characters)}, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder": {"type": "ByteLevel"}}))
        return model

    def test_a_pass_over_completions_counts_their_tokens(self):
        rows = self.path / "completions.jsonl"
        rows.write_text("".join(json.dumps({"prompt": "x" * 60, "completion": f" {i:03}" * 10}) + "\n" for i in range(400)))
        done = self.train("--set", "run.seconds=1", data=rows, model=self.byte_llama())
        sequence = int(self.chosen("model.sequence", done).split()[0])
        self.assertEqual(int(self.chosen("run.steps", done).split()[0]), -(-380 * 100 // (32 * sequence)))

    def test_completions_are_not_cut_from_their_prompts(self):
        model = self.byte_llama(positions=1024)
        rows = self.path / "completions.jsonl"
        for prompt, sequence in ((1, "512  documents are packed into sequences of this length"),
                                 (660, "704  holds the longest of the first 40 rows, of 700 tokens on average"),
                                 (1260, "1024  40 of the first 40 rows are longer, of 1300 tokens on average")):
            rows.write_text("".join(json.dumps({"prompt": "x" * prompt, "completion": f" {i:03}" * 10}) + "\n" for i in range(40)))
            done = self.train("--set", "run.steps=1", "--set", "batch.minibatch=2", data=rows, model=model, output=f"out-{prompt}")
            self.assertEqual(self.chosen("model.sequence", done), sequence)

    def test_rows_of_which_nothing_is_learnt_are_counted(self):
        once = ("--set", "run.steps=1", "--set", "batch.minibatch=2")
        self.rows.write_text("".join(json.dumps({"text": "" if 0 < i < 6 else f"film {i}", "label": i % 2}) + "\n" for i in range(40)))
        done = self.train(*once)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('held out for validation; 5 have an empty "text", from which nothing is learnt', done.stderr)
        self.rows.write_text("".join(json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "user" if i == 3 else "assistant", "content": "a"}]})
                                     + "\n" for i in range(40)))
        done = self.train(*once, "--set", "data.template=chatml", model=self.byte_llama(), output="chat")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('held out for validation; 1 has no message of the role "assistant", from which nothing is learnt', done.stderr)

    def test_choices_fit_in_their_sequence(self):
        rows = self.path / "choices.jsonl"
        rows.write_text("".join(json.dumps({"context": "which one", "choices": ["a film", "an actor"] * 4, "label": i % 8}) + "\n" for i in range(24)))
        done = self.train("--set", "run.steps=1", "--set", "batch.minibatch=2", data=rows)
        self.assertEqual(self.chosen("model.sequence", done), "56  holds the longest of the first 24 rows, of 56 tokens on average")
        self.assertNotIn("longer than model.sequence", done.stderr)

    def test_what_is_cut_and_what_is_not_read_is_said(self):
        rows = [{"text": "film " * 700, "label": i % 2, "source": "here"} for i in range(40)]
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = self.train("--set", "run.steps=1", "--set", "batch.minibatch=2")
        self.assertEqual(self.chosen("model.sequence", done), "512  40 of the first 40 rows are longer, of 702 tokens on average")
        self.assertIn('held out for validation; not read: ["source"]', done.stderr)

    def test_a_dry_run_says_what_is_chosen_and_leaves_nothing(self):
        done = self.train("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.chosen("model.labels", done), "2  different labels in the rows")
        self.assertIn("device (exact)", done.stderr)
        self.assertFalse((self.path / "out").exists())

    def test_pairs_are_not_read_by_half(self):
        pairs = [{"text": "a film", "text_pair": f"an actor {i}", "label": i % 2} for i in range(40)]
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in pairs))
        self.refuse('has "text_pair" beside "text"; to learn both: --set \'data.columns=["text", "text_pair"]\'')
        done = self.train("--dry-run", "--set", 'data.columns=["text", "text_pair"]')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_model_without_a_tokenizer_takes_the_one_that_is_named(self):
        model, tokenizer = self.path / "bare", self.path / "mine.json"
        shutil.copytree(MODEL, model)
        shutil.copy(MODEL / "tokenizer.json", tokenizer)
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
            (model / name).unlink(missing_ok=True)
        refused = self.train(model=model)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("has no tokenizer; name one by --set data.tokenizer=FILE", refused.stderr)
        done = self.train("--set", f"data.tokenizer={tokenizer}", "--set", "run.steps=2", model=model)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Under the name by which programs find it.
        tokenizer.rename(self.path / "moved.json")
        exported = self.run_tool("out", "exported", name="l2l-export")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        self.assertEqual((self.path / "exported/tokenizer.json").read_bytes(), (MODEL / "tokenizer.json").read_bytes())
        # And its rows as they are.
        evaluated = self.run_tool("exported", "--data", self.rows, name="l2l-eval")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertIn("accuracy", json.loads(evaluated.stdout)["metrics"])

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
        bad.write_text('[{"text": "x", "label": 1}]\n')
        self.refuse("each row is a line: of a list, jq -c '.[]' FILE makes that", data=bad)
        bad.write_text('{"text": "x", "label": NaN}\n')
        self.refuse("line 1: is not a JSON object in UTF-8 (NaN and Infinity are not JSON)", data=bad)
        bad.write_text("".join(json.dumps({"text": "x", "label": i % 2}) + "\n" for i in range(19)))
        self.refuse("has 19 rows; at least 20", data=bad)
        bad.write_text("".join(json.dumps({"prompt": "x", "completion": "y"}) + "\n" for _ in range(30)))
        self.refuse("are texts to continue, which bert cannot", data=bad)
        bad.write_text("text,label\nx,1\n")
        self.refuse("line 1: is not a JSON object in UTF-8; tables and plain text are for a config", data=bad)
        self.refuse("unknown key", "--set", "optimizer.lerning_rate=1")
        self.refuse("model.sequence", "--set", "model.sequence=100000")
        self.refuse("cannot be", data=self.path / "none.jsonl")
        self.refuse("cannot be", data=self.path / "none.jsonl", output="new/folder")
        self.refuse("config.json", model=self.path)
        bad.write_text("".join(json.dumps({"text": "x", "labels": i % 2}) + "\n" for i in range(40)))
        self.refuse('has "labels" beside "text"; what is learned of a text is its "label"', data=bad)
        bad.write_text("".join(json.dumps({"text": "", "label": i % 2}) + "\n" for i in range(30)))
        self.refuse('bad.jsonl: all rows have an empty "text"', data=bad)
        llama = self.byte_llama()
        bad.write_text("".join(json.dumps({"prompt": "x", "completion": ""}) + "\n" for _ in range(30)))
        self.refuse('bad.jsonl: all rows have an empty "completion"', data=bad, model=llama)
        bad.write_text("".join(json.dumps({"messages": [{"role": "human", "content": "x"}, {"role": "bot", "content": "y"}]}) + "\n" for _ in range(30)))
        self.refuse('bad.jsonl: no message has the role "assistant" (found: "human", "bot"): there is nothing to learn', "--set", "data.template=chatml",
                    data=bad, model=llama)
        bad.write_bytes(json.dumps({"text": "x", "label": 1}).encode("utf-16"))
        self.refuse("bad.jsonl: is UTF-16 (it begins with a byte order mark): convert it to UTF-8", data=bad)
        # Of the weights: what only a run finds.
        for name in ("config.json", "tokenizer.json", "vocab.txt", "tokenizer_config.json"):
            if (MODEL / name).exists():
                (self.path / "cache").mkdir(exist_ok=True)
                shutil.copy(MODEL / name, self.path / "cache" / name)
        (self.path / "cache/model.safetensors").write_bytes((MODEL / "model.safetensors").read_bytes()[:-1000])
        self.refuse("model.safetensors", model=self.path / "cache")
        planned = self.run_tool(self.path / "cache", name="l2l-plan")
        self.assertEqual(planned.returncode, 2, planned.stderr)
        self.assertRegex(planned.stderr, "cache/model.safetensors: .* do not lie within the [0-9]+ bytes of data\n$")
        # Of the rows: what only the plan finds.
        bad.write_text("".join(json.dumps({"text": "" if i == 7 else 5 if i == 9 else "x", "label": i % 2}) + "\n" for i in range(40)))
        self.refuse('bad.jsonl: line 10: "text" is not a string', data=bad)
        bad.write_text("".join(json.dumps({"context": "q", "choices": ["a", "b"], "label": 2 if i == 25 else 0}) + "\n" for i in range(40)))
        self.refuse('bad.jsonl: line 26: "label" is "2", not a choice from 0 to 1', data=bad)
        bad.write_text("".join(json.dumps({"text": "x", "label": "a\nb" if i == 30 else i % 2}) + "\n" for i in range(40)))
        self.refuse(r'bad.jsonl: line 31: "label" is "a\nb", which has a line break or the like in it', data=bad)

    def test_usage(self):
        for arguments, says in (((), "give a CONFIG, or --pretrained DIR --data FILE.jsonl --output DIR"),
                                (("--pretrained", MODEL), "give a CONFIG, or"), (("x.toml", "--data", "y"), "without a CONFIG"),
                                (("--pretrained", MODEL, "--data", "y", "--output", "out", "--resume", "out"),
                                 "name the run's config, out/config.toml, or give --resume-if-any alone")):
            done = self.run_tool(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
