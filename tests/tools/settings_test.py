"""What a run makes of its settings before step 1: defaults, paths, advice where memory is short, changes when it is
resumed, and that --dry-run finds what the run would.

    settings_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import re
import shutil
import subprocess
import time
import unittest

from cli_test import CONFIG, SANITIZED, TOOLS, ToolTest

ARCHITECTURES = ("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3")


def sets(**settings):
    """--set for each; _ in a name stands for the first dot."""
    words = []
    for name, value in settings.items():
        words += ["--set", f"{name.replace('_', '.', 1)}={value}"]
    return words


def size_of(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]


class Defaults(ToolTest):
    def test_every_architecture_trains_by_its_name_alone(self):
        for name in ARCHITECTURES:
            with self.subTest(name):
                self.summary(*sets(model_architecture=name, run_steps=1, checkpoint_directory=name))
        for name, key, value, said in (("llama", "dropout", 0.1, "llama has no dropout"), ("bert", "vocabulary", 256, "at least 257")):
            self.refused("run.toml", *sets(model_architecture=name), "--set", f"model.{key}={value}", names=[f"model.{key}", said])

    def test_a_json_file_is_text_unless_said(self):
        shutil.copy(self.path / "text", self.path / "text.json")
        for settings, count in ((sets(data_train='["text.json"]'), 1), (sets(data_train='["text.json"]', data_format="text"), 0)):
            _, err = self.run_tool("l2l-train", "run.toml", "--dry-run", *settings)
            self.assertEqual(err.count('text.json: is read as plain text; if each line is a JSON object, set data.format = "jsonl"'), count, err)

    def test_what_was_resolved_is_a_config(self):
        self.run_tool("l2l-train", "run.toml", "--quiet", "--output", "out", *sets(model_architecture="llama", run_steps=1))
        self.assertIn("dropout = 0.0", (self.path / "out/config.toml").read_text())
        out, _ = self.run_tool("l2l-train", "out/config.toml", "--quiet", *sets(checkpoint_directory="again"))
        self.assertEqual(json.loads(out)["steps"], 1)


class Paths(ToolTest):
    def setUp(self):
        super().setUp()
        folder = self.path / "configs"
        folder.mkdir()
        shutil.move(self.path / "run.toml", folder / "run.toml")
        self.config = "configs/run.toml"

    def test_data_lie_beside_the_config(self):
        shutil.copy(self.path / "text", self.path / "configs/text")
        (self.path / "text").write_text("short")  # too short to train on
        _, err = self.run_tool("l2l-train", self.config)
        self.assertNotIn("warning", err)
        self.assertTrue((self.path / "checkpoints/run/step-00000004").is_dir(), "what is written goes to the working directory")
        self.refused(self.config, *sets(data_train="['text']"), names=["data.train (text)"])  # --set: the working directory
        self.refused(self.config, *sets(data_train="['configs/*.md']"), names=["no file matches \"configs/*.md\"; searched in", "/configs"])
        self.refused(self.config, *sets(data_train="['texts/*.md']"), names=["there is no folder", "/texts"])
        self.refused(self.config, *sets(data_train="['configs']"), names=['is a directory; name its files: data.train = ["configs/*'])

    def test_the_working_directory_still_does(self):
        out, err = self.run_tool("l2l-train", self.config)
        self.assertRegex(err, r'warning: data.train: "text" is not in configs, the folder of run.toml, but in the working directory, '
                              r'where the next version will not look: write "../text"')
        written = self.path / self.config
        written.write_text(CONFIG.replace('"text"', '"../text"'))
        again, err = self.run_tool("l2l-train", self.config, "--resume", "checkpoints/run", "--steps", "5")
        self.assertNotIn("warning", err)
        self.assertEqual(json.loads(again.splitlines()[-1])["steps"], 5)

    def test_home_and_folders_at_any_depth(self):
        home = self.path / "home"
        (home / "books/a/b").mkdir(parents=True)
        shutil.move(self.path / "text", home / "books/a/b/text.txt")
        environment = {**os.environ, "HOME": str(home)}
        (self.path / self.config).write_text(CONFIG.replace('"text"', '"~/books/**/*.txt"').replace("[precision]", 'tokenizer = "bytes"\n[precision]'))
        for more in ([], sets(data_train="['~/**/*.txt']")):
            done = subprocess.run([TOOLS / "l2l-train", self.config, "--quiet", *more, "--set", "checkpoint.directory=~/saved"],
                                  cwd=self.path, env=environment, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((home / "saved/step-00000004").is_dir())

    def test_what_a_run_writes_is_found_from_anywhere(self):
        shutil.move(self.path / "text", self.path / "configs/text")
        self.run_tool("l2l-train", self.config, "--output", "out", "--quiet", "--steps", "2")
        elsewhere = self.path / "elsewhere"
        elsewhere.mkdir()
        done = subprocess.run([TOOLS / "l2l-train", "../out/config.toml", "--resume", "../out/checkpoints"], cwd=elsewhere,
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("warning", done.stderr)
        self.assertTrue((self.path / "out/checkpoints/step-00000004").is_dir())
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertIn(f'train = ["{self.path}/configs/text"]', (self.path / "out/config.toml").read_text())
        done = subprocess.run([TOOLS / "l2l-sample", "../out/checkpoints", "--prompt", "the ", "--tokens", "2"], cwd=elsewhere,
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)


class Advice(ToolTest):
    SHORT = sets(model_hidden=64, model_sequence=64, batch_micro_batch=8)

    def advice(self, *arguments):
        begin = time.monotonic()
        _, err = self.run_tool("l2l-train", "run.toml", "--quiet", *arguments, status=2)
        if not SANITIZED:
            self.assertLess(time.monotonic() - begin, 4)  # 2 s on a machine of its own
        kind, _, list_ = re.search(r"short by [^;]*; (what is enough|what helps|make the model)(: )?(.*)", err).groups()
        return kind, re.findall(r"([a-z]+\.[^;]*?): ([0-9.]+ (?:[KMG]i)?B)", list_.split("; together")[0]), err

    def check(self, settings, changed, need, message):
        """That `changed`, as the message has it, leads to this need."""
        words = [word for each in re.split(", | with ", changed.replace(" (a smaller minibatch)", "")) for word in ("--set", each.replace(" = ", "="))]
        plan = json.loads(self.run_tool("l2l-plan", "run.toml", "--no-measure", *settings, *words)[0])
        self.assertAlmostEqual(plan["device_bytes"] / size_of(need), 1, delta=0.01, msg=message)

    def test_the_need_is_what_it_says(self):
        settings = [*self.SHORT, *sets(recompute_policy="none", transfer_prefetch=2, transfer_stash="device")]
        memory = 2**17  # too little for any; then enough for the one that needs least
        for expected in ("what helps", "what is enough"):
            kind, remedies, err = self.advice(*settings, *sets(device_memory=memory))
            self.assertEqual(kind, expected, err)
            self.assertTrue(remedies, err)
            for changed, need in remedies:
                self.assertEqual(size_of(need) <= memory, kind == "what is enough", err)
                self.check(settings, changed, need, err)
            memory = int(1.01 * min(size_of(need) for _, need in remedies))

    @unittest.skipIf(SANITIZED, "remedies are tried for a second of the clock, in which such builds try few")
    def test_what_is_enough_together(self):
        """Where no setting alone is."""
        settings = sets(model_hidden=64, model_layers=12, model_sequence=64, batch_micro_batch=16, recompute_policy="none", transfer_stash="device")
        kind, _, err = self.advice(*settings, *sets(device_memory="1280KiB"))
        self.assertEqual(kind, "what helps", err)
        changed, need = re.search(r"; together (.*): ([0-9.]+ [KM]iB)$", err.splitlines()[0]).groups()
        self.assertLessEqual(size_of(need), 1280 * 2**10)
        self.check(settings, changed, need, err)

    def test_what_is_set_is_not_advised(self):
        kind, remedies, err = self.advice(*self.SHORT, *sets(device_memory="1KiB", recompute_policy="full", transfer_stash="host",
                                                            precision_compute="bf16"))
        self.assertEqual(kind, "what helps", err)
        text = " ".join(remedy for remedy, _ in remedies)
        self.assertIn("batch.micro_batch = 1 with batch.micro_batches = 16", text)
        for key in ("recompute", "transfer.stash", "precision", "transfer.prefetch", "moments"):
            self.assertNotIn(key, text)
        self.assertIn("make the model smaller", err)

    @unittest.skipIf(SANITIZED, "remedies are tried for a second of the clock, in which such builds try few")
    def test_where_two_kinds_are_short(self):
        settings = sets(model_hidden=2048, model_layers=100, model_sequence=64, batch_micro_batch=8, transfer_stash="host",
                        precision_compute="fp32")
        kind, remedies, err = self.advice(*settings, *sets(device_memory="64MiB"))
        self.assertRegex(err, r"device memory: .* short by [0-9.]+ [MG]iB \(host memory by [0-9.]+ [GT]iB as well\); ")
        self.assertIn(kind, ("what helps", "what is enough"), err)
        self.assertTrue(remedies, err)
        self.assertRegex(err, r", still short by [0-9.]+ [MG]iB; make the model smaller")

    def test_of_the_parameter_server(self):
        late = sets(optimizer_update="after_backward", model_layers=12)
        plan = json.loads(self.run_tool("l2l-plan", "run.toml", "--no-measure", *late)[0])
        held = next(line["bytes"] for line in plan["host"] if line["what"] == "held gradients")
        state = sum(line["bytes"] for line in plan["host"] if line["what"] in ("weights and optimizer state", "gradient staging"))
        kind, remedies, err = self.advice(*late, *sets(eps_memory=state + held - 1))
        self.assertEqual((kind, remedies[0][0]), ("what is enough", 'optimizer.update = "eager"'), err)
        eager = json.loads(self.run_tool("l2l-plan", "run.toml", "--no-measure", *sets(model_layers=12))[0])
        needs = [line["bytes"] for line in eager["host"] if line["what"] in ("weights and optimizer state", "gradient staging")]
        self.assertAlmostEqual(size_of(remedies[0][1]) / sum(needs), 1, delta=0.01)

    def test_of_several_nodes(self):
        def need(*settings):
            plan = json.loads(self.run_tool("l2l-plan", "run.toml", "--no-measure", *settings)[0])
            own = ("weights and", "gradient staging", "gradients from", "layers' weights", "state of a group")
            return plan, sum(line["bytes"] for line in plan["host"] if line["what"].startswith(own))
        nodes = sets(distributed_nodes=4, batch_micro_batches=4, model_layers=12, precision_compute="bf16")
        _, sharded = need(*nodes, *sets(distributed_wire="sharded"))
        kind, remedies, err = self.advice("--dry-run", *nodes, *sets(eps_memory=sharded))
        self.assertEqual((kind, remedies[0][0]), ("what is enough", 'distributed.wire = "sharded"'), err)
        parts = sets(batch_parts=8, batch_micro_batches=8, recompute_policy="full", transfer_stash="host")
        plan, _ = need(*parts)
        _, remedies, err = self.advice("--dry-run", *parts, *sets(device_memory=plan["device_bytes"] - 1))
        self.assertIn("batch.parts = 4", [changed for changed, _ in remedies], err)


class Resuming(ToolTest):
    def test_a_run_that_is_done(self):
        every = ["--set", "checkpoint.best=loss", "--set", "checkpoint.every=1"]
        whole = self.summary(*every)
        folder = self.path / "checkpoints/run"
        names = sorted(path.name for path in folder.iterdir())
        self.assertEqual([name for name in names if name.startswith("step-")], ["step-00000003", "step-00000004"])
        saved = (folder / "step-00000004/manifest.json").stat()
        for left in ("step-00000002", "step-00000004.old"):  # as by a process killed in its last save
            shutil.copytree(folder / "step-00000003", folder / left)
        for more, key in (([], "run.steps"), (["--steps", "4"], "--steps")):
            out, err = self.run_tool("l2l-train", "run.toml", "--quiet", "--resume", "checkpoints/run", *every, *more)
            summary = json.loads(out.splitlines()[-1])
            self.assertEqual(summary["message"], f"already at 4 of 4 steps: raise {key}")
            self.assertIn(summary["message"], err)
            self.assertNotIn("loss", summary)
            for name in ("weights_hash", "validation_loss", "checkpoint"):
                self.assertEqual(summary[name], whole[name])
            self.assertEqual(sorted(path.name for path in folder.iterdir()), names)
        now = (folder / "step-00000004/manifest.json").stat()
        self.assertEqual((now.st_ino, now.st_mtime_ns), (saved.st_ino, saved.st_mtime_ns), "saved again")
        self.assertNotIn("message", self.summary("--resume", "checkpoints/run", "--steps", "5"))

    def test_changes_are_refused_or_named(self):
        self.summary("--steps", "2", "--set", "checkpoint.every=1")
        resume = ["--resume", "checkpoints/run"]
        rate = [*resume, "--set", "optimizer.learning_rate=0.5"]
        for dry in ([], ["--dry-run", "--quiet"]):
            self.refused("run.toml", *rate, "--quiet", *dry, names=["optimizer.learning_rate = 0.5 (was 0.01)", "--allow-change optimizer.learning_rate"])
            _, err = self.run_tool("l2l-train", "run.toml", "--quiet", *resume, "--set", "model.hidden=32", *dry, status=2)
            self.assertIn("cannot go on with model.hidden = 32 (was 16)", err)
            self.assertNotIn("older checkpoint", err)
            self.refused("run.toml", "--quiet", *resume, "--set", "optimizer.name=sgd", "--allow-change", "optimizer.name", *dry,
                         names=["optimizer.name = \"sgd\" (was \"adamw\")"])
        self.refused("run.toml", "--quiet", *rate, "--allow-change", "optimizer.rate", names=["there is no such key"])
        self.refused("run.toml", "--allow-change", "optimizer.learning_rate", names=["--allow-change requires --resume or --resume-if-any"])
        _, err = self.run_tool("l2l-train", "run.toml", "--quiet", *rate, "--set", "optimizer.weight_decay=0.5", "--allow-change",
                               "optimizer.learning_rate", "--allow-change", "optimizer.weight_decay", "--steps", "3")
        self.assertIn("optimizer.learning_rate = 0.5 (was 0.01), optimizer.weight_decay = 0.5 (was 0.01)", err)

    def test_other_data(self):
        self.summary("--steps", "2")
        (self.path / "text").write_text("all is new. " * 200)
        self.refused("run.toml", "--quiet", "--resume", "checkpoints/run", names=["data.train", "--allow-change data.train"])
        _, err = self.run_tool("l2l-train", "run.toml", "--quiet", "--resume", "checkpoints/run", "--allow-change", "data.train", "--steps", "3")
        self.assertIn("training goes on at the same position in the new ones", err)
        (self.path / "text").write_text("all is new again. " * 200)
        for begun in (True, False):
            _, err = self.run_tool("l2l-train", "run.toml", "--quiet", "--resume-if-any", "--allow-change", "data.train")
            self.assertEqual("training goes on at the same position in the new ones" in err, begun)
            shutil.rmtree(self.path / "checkpoints")


class DryRun(ToolTest):
    """What stops a run before step 1 stops --dry-run, which leaves nothing behind."""

    def both_refuse(self, *arguments, names):
        for dry in ([], ["--dry-run"]):
            with self.subTest(arguments=arguments, dry=dry):
                self.refused("run.toml", "--quiet", *arguments, *dry, names=names)

    def test_what_cannot_be_written(self):
        (self.path / "file").write_text("in the way")
        (self.path / "folder").mkdir()
        for key in ("checkpoint.directory", "run.tensorboard"):
            self.both_refuse("--set", f"{key}=file", names=[key, "file"])
            self.both_refuse("--set", f"{key}=file/below", names=[key, "file"])
        for option in ("--metrics", "--trace"):
            self.both_refuse(option, "file", names=[option, "is no file that this option wrote"])
            self.both_refuse(option, "folder", names=[option, "is a directory"])
            self.both_refuse(option, "no/such/folder/m", names=[option])
        self.both_refuse("--output", "file", names=["--output"])
        self.both_refuse("--output", "file/below", names=["--output", "is not a directory"])
        before = sorted(self.path.rglob("*"))
        self.run_tool("l2l-train", "run.toml", "--dry-run", "--quiet", "--output", "a/b", "--set", "run.tensorboard=c/d", "--set",
                      "checkpoint.directory=e/f", "--metrics", "m", "--trace", "t")
        self.assertEqual(sorted(self.path.rglob("*")), before)

    def test_what_cannot_be_read(self):
        self.both_refuse("--resume", "nowhere", names=["nowhere"])
        self.summary(*sets(run_steps=1, checkpoint_directory="model"))
        model = next((self.path / "model").glob("step-*"))
        self.run_tool("l2l-train", "run.toml", "--quiet", "--dry-run", "--set", f"model.pretrained={model}")
        (model / "model.safetensors").rename(model / "model.old")
        self.both_refuse("--set", f"model.pretrained={model}", names=["model.safetensors"])
        best = sets(checkpoint_best="loss")
        self.summary(*best, "--steps", "2")
        (self.path / "checkpoints/run/validations.json").write_text("{")
        self.both_refuse(*best, "--resume", "checkpoints/run", names=["validations.json"])


if __name__ == "__main__":
    unittest.main()
