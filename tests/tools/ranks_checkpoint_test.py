#!/usr/bin/env python3
"""Checkpoints of several processes: each writes its part, any number goes on, and none is ever half there.

    ranks_checkpoint_test.py FOLDER_OF_THE_TOOLS MPIRUN [--repeats N]

N times (default 1) each of two processes is killed at every stage of its saves. That needs a build with fault points.
"""
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import unittest

import rank_runs
from rank_runs import ARGUMENTS

FORMATS = {
    "eager": [],
    "held": ['optimizer.clip="global"'],
    "LAMB": ['optimizer.name="lamb"'],
    "int8 moments": ['optimizer.moments="int8"', 'precision.compute="bf16"'],
    "sharded weights": ['distributed.wire="sharded"', 'precision.compute="bf16"'],
    "fp16, with overflows": ['precision.compute="fp16"', "precision.loss_scale_growth=2"],
}
STEP = "step-00000003"
# Prints the logits of a few tokens, as transformers computes them from a directory.
LOGITS = """
import sys, torch, transformers
transformers.utils.logging.set_verbosity_error()
model, told = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)
assert not told["missing_keys"] and not told["mismatched_keys"], told
with torch.no_grad():
    print(model.eval()(torch.tensor([[5, 104, 101, 32, 119]])).logits.double().flatten().tolist())
"""


def directory(name):
    return f'checkpoint.directory="{name}"'


def hidden(folder):
    return [name for name in os.listdir(folder) if name.startswith(".step-")]


class Checkpoints(rank_runs.RankRuns):
    def names(self, checkpoint):
        return sorted(os.listdir(self.path / checkpoint))

    def tool(self, name, *arguments):
        done = subprocess.run([ARGUMENTS.tools / name, *arguments], cwd=self.path, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_any_number_of_ranks_goes_on(self):
        every = [directory("whole"), "checkpoint.every=2"]
        for name, how in FORMATS.items():
            with self.subTest(name):
                settings = [*how, "device.count=1"]
                whole, _ = self.run_ranks(4, "--quiet", settings=[*settings, *every])
                first, _ = self.run_ranks(4, "--quiet", "--steps", "3", settings=[*settings, directory("first"), "checkpoint.every=2"])
                self.assertNotEqual(first["weights_hash"], whole["weights_hash"])
                self.assertEqual(len(self.names(f"first/{STEP}")), 2 * 4 + 3)
                again, _ = self.run_ranks(4, "--quiet", "--resume", "first", settings=[*settings, directory("again")])
                self.assertEqual(again["weights_hash"], whole["weights_hash"])
                for ranks in (1, 2, 3, 8):  # the state is the same; another number of summands gives other bits
                    other, said = self.run_ranks(ranks, "--quiet", "--steps", "3", "--resume", "first",
                                              settings=[*settings, directory(f"other{ranks}")])
                    self.assertEqual(other["weights_hash"], first["weights_hash"], ranks)
                    self.assertIn(f"device.count = 1 with {ranks} process{'es' if ranks > 1 else ''} (was 1 with 4)", said)
                self.assertEqual(self.names(f"other1/{STEP}"), ["config.json", "manifest.json", "model.safetensors", "optimizer.safetensors"])
                back, _ = self.run_ranks(4, "--quiet", "--resume", "other1", settings=[*settings, directory("back")])
                self.assertEqual(back["weights_hash"], whole["weights_hash"], "4 -> 1 -> 4")
                devices, said = self.run_ranks(2, "--quiet", "--resume", "first", settings=[*how, "device.count=2"])
                self.assertEqual(devices["weights_hash"], whole["weights_hash"])
                self.assertNotIn("other settings", said)
                for folder in ("whole", "first", "again", "back", *(f"other{ranks}" for ranks in (1, 2, 3, 8))):
                    shutil.rmtree(self.path / folder)

    def save_both(self):
        """The same state as three processes write it, and as one does."""
        self.run_ranks(3, "--quiet", "--steps", "3", settings=[directory("three")])
        self.run_ranks(1, "--quiet", "--steps", "3", "--resume", "three", settings=[directory("one")])
        return self.path / "three" / STEP, self.path / "one" / STEP

    def test_every_program_reads_them(self):
        three, one = self.save_both()
        self.assertIn("model-00003-of-00003.safetensors", os.listdir(three))
        for tool, arguments in (("l2l-sample", ("--prompt", "the quick", "--tokens", "12", "--seed", "3")), ("l2l-eval", ("--data", "text"))):
            self.assertEqual(self.tool(tool, three, *arguments), self.tool(tool, one, *arguments), tool)
        for folder in (three, one):
            self.tool("l2l-export", folder, f"exported-{folder.parent.name}")
        for name in ("model.safetensors", "config.json"):
            self.assertEqual((self.path / "exported-three" / name).read_bytes(), (self.path / "exported-one" / name).read_bytes())
        plain = json.loads((three / "model.safetensors.index.json").read_text())
        self.assertEqual(plain["metadata"]["total_size"], 4 * 46880)
        self.run_ranks(2, "--quiet", settings=['model.pretrained="three/step-00000003"', directory("tuned")])

    def test_adapters(self):
        self.save_both()
        settings = ['model.pretrained="three/step-00000003"', "lora.rank=2"]
        self.run_ranks(3, "--quiet", "--steps", "2", settings=[*settings, directory("adapters-three")])
        self.run_ranks(1, "--quiet", "--steps", "2", "--resume", "adapters-three", settings=[*settings, directory("adapters-one")])
        for file, how in (("adapter_model.safetensors", []), ("model.safetensors", ["--merge"])):
            exported = []
            for name in ("adapters-three", "adapters-one"):
                self.tool("l2l-export", name, f"{name}-{file}", *how)
                exported.append((self.path / f"{name}-{file}" / file).read_bytes())
            self.assertEqual(exported[0], exported[1])

    @unittest.skipUnless(importlib.util.find_spec("transformers") and importlib.util.find_spec("torch"), "needs PyTorch and transformers")
    def test_transformers_loads_them(self):
        logits = []
        for folder in self.save_both():
            done = subprocess.run([sys.executable, "-c", LOGITS, folder], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            logits.append(json.loads(done.stdout))
        self.assertEqual(logits[0], logits[1])
        self.assertGreater(max(logits[0]) - min(logits[0]), 0.1)

    def test_best_and_pruned(self):
        settings = ['data.validation=["text"]', "run.validate_every=2", 'checkpoint.best="loss"', "checkpoint.every=1", "checkpoint.keep=2",
                    directory("kept")]
        self.run_ranks(3, "--quiet", settings=settings)
        self.assertEqual(self.names("kept"), [".lock", "best", "step-00000005", "step-00000006", "validations.json"])
        self.assertEqual(len(self.names("kept/best")), 2 * 3 + 3)
        best, _ = self.run_ranks(1, "--quiet", "--resume", "kept/best", settings=[directory("from-best")])
        self.assertEqual(best["steps"], 6)

    def test_damage_that_one_finds_sends_all_back(self):
        self.run_ranks(3, "--quiet", "--steps", "3", settings=[directory("saved"), "checkpoint.every=1"])
        for name in ("model-00002-of-00003.safetensors", "optimizer-00003-of-00003.safetensors"):
            file = self.path / "saved" / STEP / name
            sound = file.read_bytes()
            file.write_bytes(sound[:-2] + bytes([sound[-2] ^ 1]) + sound[-1:])
            summary, messages = self.run_ranks(3, "--resume", "saved", settings=[directory("on")])
            self.assertEqual(messages.count(f"{name}: tensor"), 1, messages)
            self.assertIn("was changed after it was written (checksum); trying an older checkpoint", messages)
            self.assertIn("resumed from saved/step-00000002", messages)
            self.assertEqual(summary["steps"], 6)
            file.write_bytes(sound)

    def test_a_directory_that_one_does_not_see_is_refused_before_the_first_step(self):
        for arguments in (["--dry-run"], []):
            done = self.on_rank(3, 2, there=f"exec {{line}} --set '{directory('mine')}'", arguments=["--set", f"'{directory('theirs')}'", *arguments])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("rank 2: checkpoint.directory mine: what rank 0 makes there is not seen here", done.stderr)
            self.assertIn("set a directory on a disk that all of them share", done.stderr)
            self.assertEqual(done.stdout, "")
            left = [str(path) for name in ("mine", "theirs") for path in (self.path / name).rglob("*") if path.name != ".lock"]
            self.assertEqual(left, [])

    # The same folder by two names is one that all see.
    def test_each_may_have_a_name_of_its_own_for_the_directory(self):
        (self.path / "theirs").mkdir()
        (self.path / "mine").symlink_to("theirs")
        done = self.on_rank(3, 2, there=f"exec {{line}} --set '{directory('mine')}'", arguments=["--set", f"'{directory('theirs')}'"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.names("theirs/step-00000006")), 2 * 3 + 3)

    def test_a_run_goes_on_where_the_directory_has_another_name_for_each(self):
        whole, _ = self.run_ranks(2, "--quiet", settings=[directory("whole")])
        self.run_ranks(2, "--quiet", "--steps", "3", settings=[directory("saved")])
        (self.path / "elsewhere").mkdir()
        (self.path / "checkpoints").mkdir()
        for name in ("run.toml", "text", "checkpoints"):
            (self.path / "elsewhere" / name).symlink_to(self.path / name)
        for there in ("", f" --set '{directory('../saved')}'"):  # as the directory of the run, or of another one
            here = there.replace("../", "")
            done = self.on_rank(2, 1, f"cd elsewhere; exec {{line}} --resume ../saved{there}", f"exec {{line}} --resume saved{here}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["weights_hash"], whole["weights_hash"])
            shutil.rmtree(self.path / "saved" / "step-00000006", ignore_errors=True)

    def test_other_weights_or_checkpoints_of_one_are_refused(self):
        for folder, seed in (("saved", 1), ("other", 2)):
            self.run_ranks(1, "--quiet", "--steps", "3", settings=[directory(folder), f"run.seed={seed}", "checkpoint.every=1"])
        begins = "exec {line} --set 'model.pretrained=\"%s\"'"
        done = self.on_rank(2, 1, begins % f"other/{STEP}", begins % f"saved/{STEP}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "rank 1 begins with weights of hash .*, but rank 0 with weights of hash .*must be given the same")
        resumes = "exec {line} --resume %s"
        self.run_ranks(1, "--quiet", "--steps", "3", settings=[directory("again"), "device.count=2"])  # has other last bits
        done = self.on_rank(2, 1, resumes % "again", resumes % "saved")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"saved/{STEP}: rank 1 has another checkpoint there than rank 0", done.stderr)
        # One rank verifies for all only what all see.
        shutil.copytree(self.path / "saved", self.path / "copy")
        for name in ("model.safetensors", "optimizer.safetensors"):
            file = self.path / "copy" / STEP / name
            sound = file.read_bytes()
            for place in (len(sound) // 3, len(sound) - 3):
                file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1:])
                for rank in (0, 1):
                    done = self.on_rank(2, rank, resumes % "copy", resumes % "saved", ["--steps", "4"])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("was changed after it was written (checksum); trying an older checkpoint", done.stderr)
            file.write_bytes(sound)

    def test_a_disk_that_is_full_for_one_ends_all_and_leaves_the_checkpoint_before(self):
        whole, _ = self.run_ranks(3, "--quiet", settings=[directory("whole")])
        settings = [directory("limited"), "checkpoint.every=1", "checkpoint.keep=1000"]
        self.run_ranks(3, "--quiet", "--steps", "3", settings=settings)
        before = {name: (self.path / "limited" / STEP / name).read_bytes() for name in self.names(f"limited/{STEP}")}
        # A step takes long enough for the disk to become full in it.
        run = self.start(3, "--resume", "limited", settings=[*settings, "run.steps=1000", "transfer.link_bandwidth=500000"])
        self.wait_for_steps()
        resource.prlimit(self.processes()[1], resource.RLIMIT_FSIZE, (50_000, 50_000))
        out, _ = run.communicate(timeout=120)
        self.assertEqual((run.returncode, out), (1, ""), self.messages())
        self.assertRegex(self.messages(), r"failed: rank 1: limited/\.step-\d+\.tmp-\d+/\w+-00002-of-00003\.safetensors: cannot be written: File too large")
        self.assertNotIn("ended by an error", self.messages())
        self.wait_for("no process is left", lambda: not self.processes())
        self.assertEqual(hidden(self.path / "limited"), [])
        for step in self.names("limited"):
            if step.startswith("step-") and step > STEP:
                shutil.rmtree(self.path / "limited" / step)
        self.assertEqual({name: (self.path / "limited" / STEP / name).read_bytes() for name in before}, before)
        again, _ = self.run_ranks(3, "--quiet", "--resume", "limited", settings=settings)
        self.assertEqual(again["weights_hash"], whole["weights_hash"])

    def test_a_limit_on_the_files_of_one_is_refused_before_the_first_step(self):
        done = self.on_rank(3, 1, there="ulimit -f 40; exec {line}", arguments=["--set", f"'{directory('limited')}'"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "rank 1: checkpoint.directory limited: a checkpoint has a file of .*raise the limit")

    def kill_at(self, moment, rank, settings):
        """Whether there was such a moment."""
        arguments = [word for setting in settings for word in ("--set", f"'{setting}'")]
        done = self.on_rank(2, rank, there=f"export 'L2L_FAULT_MOMENT=kill:{moment}:checkpoint saver'; exec {{line}}", arguments=arguments,
                            launcher=["--mca", "odls_base_sigkill_timeout", "0"])  # not a second for each, in which the other may end
        self.wait_for("no process is left", lambda: not self.processes())
        return done.returncode != 0

    def test_a_kill_at_every_stage_of_a_save_leaves_a_whole_checkpoint(self):
        settings = ["run.steps=2", "checkpoint.every=1", 'optimizer.clip="global"', directory("killed")]
        whole, _ = self.run_ranks(2, "--quiet", settings=[*settings, directory("whole")])
        if not self.kill_at(1, 0, settings):
            self.skipTest("no fault points in this build")
        shutil.rmtree(self.path / "killed")
        kills, found = 0, {}
        for _ in range(ARGUMENTS.repeats):
            for rank in (0, 1):
                moment = 1
                while self.kill_at(moment, rank, settings):
                    kills += 1
                    steps = sorted(name for name in self.names("killed") if re.fullmatch(r"step-\d+", name))
                    newest = steps[-1] if steps else "none"
                    found[newest] = found.get(newest, 0) + 1
                    on, messages = self.run_ranks(2, "--resume-if-any", settings=settings)
                    self.assertEqual(on["weights_hash"], whole["weights_hash"], f"moment {moment} of rank {rank}")
                    self.assertIn(f"resumed from killed/{newest}" if steps else "saved killed/step-00000001", messages)
                    self.assertNotRegex(messages, "not complete|older checkpoint")
                    self.assertEqual(hidden(self.path / "killed"), [])
                    shutil.rmtree(self.path / "killed")
                    moment += 1
                shutil.rmtree(self.path / "killed")
        print(f"{kills} kills; the newest checkpoint then: {found}", file=sys.stderr)
        self.assertEqual(set(found), {"none", "step-00000001", "step-00000002"}, "before, between and after the saves")


if __name__ == "__main__":
    rank_runs.main(("--repeats", 1))
