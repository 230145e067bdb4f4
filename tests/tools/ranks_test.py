#!/usr/bin/env python3
"""l2l-train on several processes under mpirun: bits, checkpoints, validation, signals, faults.

    ranks_test.py FOLDER_OF_THE_TOOLS MPIRUN RANKS_PROGRAM [--kills N] [--seed N]
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import rank_runs
from rank_runs import ARGUMENTS, DEVICE

# What each run of several processes is compared in with one of as many devices.
CASES = {
    "eager": [],
    "held": ['optimizer.clip="global"'],
    "per layer": ['optimizer.clip="per_layer"', "optimizer.max_norm=0.1"],
    "after the backward pass": ['optimizer.update="after_backward"'],
    "bf16": ['precision.compute="bf16"'],
    "fp16, with overflows": ['precision.compute="fp16"', "precision.loss_scale_growth=2"],
    "LAMB": ['optimizer.name="lamb"'],
    "SGD": ['optimizer.name="sgd"', "optimizer.momentum=0.9"],
    "int8 moments": ['optimizer.moments="int8"', 'precision.compute="bf16"'],
    "tables in chunks": ["transfer.vocabulary_chunk=100"],
    "tables that are not tied": ["model.tie_embeddings=false"],
    "Llama": ['model.architecture="llama"', "model.dropout=0"],
    "BERT": ['model.architecture="bert"', "model.vocabulary=260", "data.mask_token=257"],
    "reversible": ['model.reversible="float"'],
    "recomputation": ['recompute.policy="full"', 'transfer.stash="host"'],
    "sharded weights": ['distributed.wire="sharded"', 'precision.compute="bf16"'],
}

# Ranks and devices of each, beside one process with one device.
DIVISIONS = ((1, 2), (1, 4), (2, 2), (4, 1))
if DEVICE != "host":  # one GPU for all
    DIVISIONS = ((2, 1), (4, 1))
    CASES = {name: CASES[name] for name in ("eager", "bf16", "LAMB", "int8 moments", "tables in chunks", "Llama", "sharded weights")}


class Ranks(rank_runs.RankRuns):
    def expect_same(self, settings, ranks, devices=1):
        """Of `ranks` processes with `devices` devices each, and of one with all of them."""
        alone, _ = self.run_ranks(1, "--quiet", settings=[*settings, f"device.count={ranks * devices}"])
        together, _ = self.run_ranks(ranks, "--quiet", settings=[*settings, f"device.count={devices}"])
        for key in ("weights_hash", "loss", "validation_loss", "metrics"):
            self.assertEqual(together[key], alone[key], key)
        return together

    def test_ranks_have_the_bits_of_one_process_with_all_devices(self):
        for name, settings in CASES.items():
            with self.subTest(name):
                self.expect_same(settings, 4)
        for ranks, devices in ((2, 2), (3, 1), (3, 2), (2, 3)):
            with self.subTest(f"{ranks} x {devices}"):
                self.expect_same(['precision.compute="bf16"'], ranks, devices)

    def test_parts_give_the_same_bits_on_any_number_of_devices_and_ranks(self):
        for name, settings in CASES.items():
            with self.subTest(name):
                alone, _ = self.run_ranks(1, "--quiet", settings=[*settings, "batch.parts=4"])
                for ranks, devices in DIVISIONS:
                    other, _ = self.run_ranks(ranks, "--quiet", settings=[*settings, "batch.parts=4", f"device.count={devices}"])
                    for key in ("weights_hash", "loss", "validation_loss", "metrics"):
                        self.assertEqual(other[key], alone[key], f"{ranks} x {devices}: {key}")
                whole, _ = self.run_ranks(1, "--quiet", settings=settings)
                self.assertNotEqual(alone["weights_hash"], whole["weights_hash"], "the order of a sum is seen")

    @unittest.skipIf(DEVICE != "host", "whose memory they would share, too")
    def test_ranks_of_a_machine_share_its_memory(self):
        """Layers for which two processes take seven tenths each of what is available."""
        wide = ["model.hidden=1024", "model.heads=8"]

        def planned(layers):
            named = [word for setting in (*wide, f"model.layers={layers}", "distributed.nodes=2") for word in ("--set", setting)]
            plan = subprocess.run([ARGUMENTS.tools / "l2l-plan", "run.toml", "--no-measure", *named], cwd=self.path, capture_output=True,
                                  text=True, timeout=100, env=self.environment(), check=True)
            return json.loads(plan.stdout)["host_bytes"]

        available = 1024 * int(re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
        one = (planned(12) - planned(4)) / 8
        layers = int(0.7 * available / one)
        for part, expected in ((1, 2), (3, 0)):
            with self.subTest(f"{layers // part} layers"):
                _, said = self.run_ranks(2, "--dry-run", settings=[*wide, f"model.layers={layers // part}"], expected=expected)
                shared = re.search("the share of each of 2 processes in .* is .*, short by", said)
                self.assertEqual(shared is not None, expected != 0, said)

    def test_parts_go_on_on_any_number_of_ranks(self):
        parts = ["batch.parts=4", "checkpoint.keep=9"]
        whole, _ = self.run_ranks(1, "--quiet", settings=parts)
        self.run_ranks(4, "--quiet", settings=[*parts, "run.steps=2", 'checkpoint.directory="begun"'])
        for ranks in (1, 2, 4):
            other, _ = self.run_ranks(ranks, "--quiet", "--resume", "begun", settings=parts)
            self.assertEqual(other["weights_hash"], whole["weights_hash"])

    def test_sharded_weights_have_the_bits_of_replicated_ones(self):
        sharded = 'distributed.wire="sharded"'
        for name, settings in {"eager": [], "held": ['optimizer.clip="global"'], "validated": ['data.validation=["text"]', "run.validate_every=2"],
                               "weights that stay": ["transfer.resident_layers=1"], "resident": ['device.execution="resident"']}.items():
            with self.subTest(name):
                self.expect_same([*settings, sharded], 3)
                self.expect_same([*settings, sharded], 2, devices=2)
        line = "exec {line} --set "
        for own, others, says in ((sharded, "run.seed=1", 'rank 1 has distributed.wire = "sharded"'),
                                  (f"{sharded} --set transfer.resident_layers=1", sharded, "rank 1 has layers whose weights stay on the device = ")):
            done = self.on_rank(2, 1, line + own, line + others)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)

    def test_other_bits_are_seen(self):
        alone, _ = self.run_ranks(1, "--quiet", settings=["device.count=4"])
        together, _ = self.run_ranks(4, "--quiet", settings=["run.seed=2"])
        self.assertNotEqual(together["weights_hash"], alone["weights_hash"])

    def test_validations_and_metrics_are_those_of_all(self):
        self.expect_same(['data.validation=["text"]', "run.validate_every=3"], 4)
        rows = "\n".join(json.dumps({"text": f"number {i} is {'odd' if i % 2 else 'even'}", "label": i % 2}) for i in range(200))
        (self.path / "rows.jsonl").write_text(rows)
        summary = self.expect_same(['model.architecture="bert"', 'model.head="classification"', "model.labels=2", 'data.label="label"',
                                    'data.train=["rows.jsonl"]', 'data.validation=["rows.jsonl"]', "run.validate_every=2"], 3)
        self.assertIn("accuracy", summary["metrics"])

    def test_padded_samples_of_several_lengths(self):
        rows = "\n".join(json.dumps({"text": "a word " * (1 + i % 9)}) for i in range(300))
        (self.path / "rows.jsonl").write_text(rows)
        self.expect_same(['data.train=["rows.jsonl"]', 'data.samples="padded"', "data.buckets=3", "model.sequence=48"], 4)

    def test_the_first_alone_speaks_and_writes(self):
        summary, messages = self.run_ranks(3, "--output", "out")
        self.assertEqual(summary["ranks"], 3)
        # Of each step: two thirds of its gradients (of the tied table twice), and its third of the weights to two others.
        parameters, table = 46880, 256 * 32
        expected = 6 * 4 * (2 / 3 * (parameters + table) + 2 / 3 * parameters)
        self.assertAlmostEqual(summary["network_sent_bytes"] / expected, 1, delta=0.25)
        self.assertEqual(messages.count("memory before step 1"), 1, messages)
        self.assertLess(summary["host_bytes"], summary["predicted_host_bytes"] * 1.02 + 2**20)
        self.assertEqual(messages.count("saved out/checkpoints/step-00000006"), 1, messages)
        self.assertEqual((self.path / "out/metrics.jsonl").read_text().count('"loss"'), 6)

    def test_a_checkpoint_that_one_rank_alone_finds_is_refused(self):
        self.run_ranks(1, "--quiet", settings=['checkpoint.directory="here"'])
        done = self.on_rank(2, 1, "exec {line} nowhere", "exec {line} here", ["--resume-if-any", "--resume"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("rank 1: finds no checkpoint to go on from where another process does", done.stderr)

    def test_the_first_rank_chooses_the_type_of_products_for_all(self):
        auto = "exec {line} --set 'precision.compute=\"auto\"'"
        for rank in (0, 1):  # the other's processor has no instructions for bf16, if this one has
            done = self.on_rank(2, rank, auto, f"export ONEDNN_MAX_CPU_ISA=AVX2; {auto}")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_one_rank_alone_leaves_to_be_chosen_is_refused(self):
        auto = "exec {line} --set batch.minibatch=96 --set batch.micro_batches=0 --set 'batch.micro_batch=\"auto\"'"
        for rank in (0, 1):
            done = self.on_rank(2, rank, auto)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("rank 1 has batch.", done.stderr)
        # Unless it is what the first is given.
        done = self.on_rank(2, 1, "exec {line} --set 'precision.compute=\"auto\"'")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_does_not_fit_together_is_refused(self):
        done = self.on_rank(2, 1, "exec {line} --set run.seed=7")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 has run.seed = 7, but rank 0 has run.seed = 1", done.stderr)
        self.assertEqual(done.stdout, "")
        two = "exec {line} --set device.count=2"
        done = self.on_rank(2, 1, f"{two} --set device.tensor=2", two)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("rank 1 has device.tensor = 2, but rank 0 has device.tensor = 1", done.stderr)
        _, messages = self.run_ranks(5, "--quiet", expected=2)
        self.assertIn("batch.micro_batches = 24", messages)

    def test_without_a_config_there_is_one_process(self):
        (self.path / "rows.jsonl").write_text('{"text": "a"}\n')
        done = subprocess.run([ARGUMENTS.mpirun, "-n", "2", ARGUMENTS.tools / "l2l-train", "--pretrained", "none", "--data", "rows.jsonl", "--output", "out"],
                              cwd=self.path, capture_output=True, text=True, timeout=120, env=self.environment(), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("give several processes a CONFIG", done.stderr)
        self.assertFalse((self.path / "out").exists())

    def test_other_validation_data_are_refused(self):
        (self.path / "short").write_text("the quick brown fox. " * 20)
        line = "exec {line} --set data.validation="
        for other in ("'[\"short\"]'", "'[]'"):
            done = self.on_rank(2, 1, line + other, line + "'[\"text\"]'")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("rank 1 has validation data = ", done.stderr)

    def test_an_error_of_one_rank_alone_ends_all(self):
        for settings, arguments in (((), ("--metrics", "/dev/full")), ((), ("--metrics", "/nonexistent/m.jsonl"))):
            done = subprocess.run(self.command(2, "--quiet", *arguments, settings=settings), cwd=self.path, capture_output=True,
                                  text=True, timeout=60, env=self.environment(), check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(arguments[1], done.stderr)
            self.wait_for("no process is left", lambda: not self.processes())

    def run_program(self, mode):
        return subprocess.run([ARGUMENTS.mpirun, "-n", "2", ARGUMENTS.program, "text", "checkpoints", mode], cwd=self.path, capture_output=True, text=True,
                              timeout=120, env=self.environment(), check=False)

    def test_a_program_has_a_trainer_after_another_and_state_that_was_gathered_is_forgotten(self):
        done = self.run_program("twice")
        self.assertEqual(done.returncode, 0, done.stderr)
        trained, fresh, resumed = done.stdout.split()
        self.assertNotEqual(fresh, trained)
        self.assertEqual(resumed, trained)

    def test_an_exception_of_a_program_on_one_rank_ends_all(self):
        done = self.run_program("throws")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1: ended by an error", done.stderr)

    def test_rank_0_chooses_the_microbatch_for_all(self):
        settings = ['batch.micro_batch="auto"', "batch.micro_batches=0", "batch.minibatch=48", 'recompute.policy="auto"']
        done, messages = self.run_ranks(2, settings=settings)
        chosen = re.search(r"microbatch: (\d+) of the minibatch's 48", messages)
        self.assertIsNotNone(chosen, messages)
        kept = [f"batch.micro_batch={chosen.group(1)}", *settings[1:]]
        alone, _ = self.run_ranks(1, "--quiet", settings=[*kept, "device.count=2"])
        self.assertEqual(done["weights_hash"], alone["weights_hash"])

    def test_processes_that_would_train_apart_are_refused(self):
        done = subprocess.run(self.command(1), cwd=self.path, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "RANK": "0"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("torchrun started 2 processes", done.stderr)

    def test_a_signal_to_one_rank_saves_and_ends_all(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                directory = f"stopped-{rank}"
                run = self.start(3, settings=["run.steps=100000", f'checkpoint.directory="{directory}"', 'optimizer.clip="global"'])
                self.wait_for_steps()
                os.kill(self.processes()[rank], signal.SIGTERM)
                out, _ = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 0, self.messages())
                summary = json.loads(out)
                self.assertFalse(summary["finished"])
                self.assertTrue((self.path / summary["checkpoint"] / "manifest.json").is_file())

    def test_a_rank_that_is_stopped_is_named(self):
        run = self.start(3, settings=["run.steps=1000000", "distributed.timeout=8"])
        self.wait_for_steps()
        stopped = self.processes()[1]
        os.kill(stopped, signal.SIGSTOP)
        run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("rank 2: rank 1 has been silent for 8 s", self.messages())
        self.wait_for("no process is left", lambda: not self.processes())

    def test_ranks_that_are_stopped_together_go_on(self):
        run = self.start(3, settings=["run.steps=1000000", "distributed.timeout=8"])
        self.wait_for_steps()
        ranks = self.processes()
        for rank in ranks.values():
            os.kill(rank, signal.SIGSTOP)
        time.sleep(9)
        for rank in ranks.values():
            time.sleep(0.2)
            os.kill(rank, signal.SIGCONT)
        time.sleep(1)
        self.assertIsNone(run.poll(), self.messages())
        os.kill(ranks[0], signal.SIGTERM)
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, self.messages())

    def test_a_thread_of_one_rank_that_hangs_ends_all(self):
        for rank, thread in ((1, "weight feeder"), (0, "gradient sender")):
            with self.subTest(thread=thread):
                limit = "export L2L_HANG_SECONDS=2; "
                run = self.on_rank(2, rank, there=limit + f"export 'L2L_FAULT_MOMENT=hang:20:{thread}'; exec {{line}}",
                                   elsewhere=limit + "exec {line}")
                if run.returncode == 0:
                    self.skipTest("no fault points in this build")
                self.assertIn(f"thread {thread} 0", run.stderr)
                self.wait_for("no process is left", lambda: not self.processes())

    def test_a_gradient_that_is_not_finite_is_found_by_all(self):
        for settings in (["optimizer.learning_rate=1e30"], ["optimizer.learning_rate=1e30", 'optimizer.clip="global"']):
            done = subprocess.run(self.command(3, "--quiet", settings=settings), cwd=self.path, capture_output=True, text=True,
                                  timeout=120, env=self.environment(), check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("gradient is not finite", done.stderr)
            self.assertNotIn("ended by an error", done.stderr)
            self.assertEqual(self.processes(), {})

    def test_a_checkpoint_that_is_being_written_is_finished_when_a_gradient_is_not_finite(self):
        settings = ["optimizer.learning_rate=1e30", 'checkpoint.directory="saved"', "checkpoint.every=1", "model.vocabulary=20000"]
        _, messages = self.run_ranks(3, "--quiet", settings=settings, expected=1)
        self.assertIn("gradient is not finite", messages)
        self.assertEqual(sorted(path.name for path in (self.path / "saved").iterdir()), [".lock", "step-00000001"])
        self.assertEqual(self.processes(), {})

    def test_a_rank_that_is_to_make_other_steps_is_refused(self):
        done = self.on_rank(2, 1, "exec {line} --steps 3")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("all processes must be given the same --steps", done.stderr)

    def expect_kills_to_lose_nothing(self, most, settings, same):
        """Kills one of three ranks at random moments, `most` times, until a run of `settings` has ended. `same`: settings of
        no effect on bits, of which each run has one."""
        settings = ["run.steps=40", 'optimizer.clip="global"', *settings]
        whole, _ = self.run_ranks(3, "--quiet", settings=[*settings, 'checkpoint.directory="whole"'])
        settings += ["checkpoint.every=3", 'checkpoint.directory="killed"']
        draw = random.Random(ARGUMENTS.seed)
        kills = ended = 0
        while kills < most or ended == 0:
            run = self.start(3, "--quiet", "--resume-if-any", settings=[*settings, draw.choice(same)])
            self.wait_for("the processes", lambda: len(self.processes()) == 3 or run.poll() is not None)
            deadline = time.monotonic() + (draw.uniform(0, 0.8) if kills < most else 60)
            while run.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            alive = self.processes()
            if alive and run.poll() is None:
                victim = draw.choice(sorted(alive))
                os.kill(alive[victim], signal.SIGKILL)
                kills += 1
            out, _ = run.communicate(timeout=60)
            self.wait_for("no process is left", lambda: not self.processes())
            if out:
                self.assertEqual(json.loads(out)["weights_hash"], whole["weights_hash"])
                shutil.rmtree(self.path / "killed")
                ended += 1
            else:
                self.assertNotEqual(run.returncode, 0, f"kill {kills} of rank {victim}")
                self.assertEqual(re.findall(r"process rank (\d+) .* exited on signal 9", self.messages()), [str(victim)], self.messages())
                self.assertNotIn("rank ", re.sub(r"process rank", "", self.messages()), "another error")
        print(f"{kills} kills, {ended} runs ended", file=sys.stderr)
        for folder in ("whole", "killed"):  # the last kill may leave checkpoints
            shutil.rmtree(self.path / folder, ignore_errors=True)

    def test_a_rank_that_dies_ends_all_and_what_was_saved_goes_on(self):
        self.expect_kills_to_lose_nothing(ARGUMENTS.kills, [], ['distributed.wire="replicated"', 'distributed.wire="sharded"'])

    @unittest.skipIf(DEVICE != "host", "one GPU for all")
    def test_a_rank_of_split_layers_that_dies_ends_all_and_what_was_saved_goes_on(self):
        for groups in (1, 2):
            with self.subTest(groups=groups):
                self.expect_kills_to_lose_nothing(ARGUMENTS.kills // 2, ["device.tensor=2", f"device.count={2 * groups}"],
                                                  ["transfer.prefetch=1", "transfer.prefetch=2"])

    @unittest.skipIf(DEVICE != "host", "one GPU for all")
    def test_a_rank_of_split_layers_that_dies_is_named_where_the_launcher_does_not_care(self):
        draw = random.Random(ARGUMENTS.seed)
        for kill in range(max(2, ARGUMENTS.kills // 8)):
            settings = ["run.steps=1000000", "device.tensor=2", f"device.count={2 + 2 * (kill % 2)}", "distributed.timeout=8"]
            run = self.start(3, settings=settings, launcher=["--enable-recovery"])
            self.wait_for_steps()
            time.sleep(draw.uniform(0, 0.5))
            victim = draw.choice((0, 1, 2))
            os.kill(self.processes()[victim], signal.SIGKILL)
            run.communicate(timeout=60)
            self.assertEqual(re.findall(r"^rank (\d): rank (\d) has been silent for 8 s", self.messages(), re.MULTILINE),
                             [(str((victim + 1) % 3), str(victim))], self.messages())
            self.wait_for("no process is left", lambda: not self.processes())


if __name__ == "__main__":
    rank_runs.main(("--kills", 8), ("--seed", 1), paths=("program",))
