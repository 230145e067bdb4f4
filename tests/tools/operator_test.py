#!/usr/bin/env python3
"""l2l-train as an operator treats it: signals, outputs that go away or are full, files that are there already.

    operator_test.py FOLDER_OF_THE_TOOLS
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = pathlib.Path(os.environ.get("L2L_TEST_DATA", "/nonexistent")) / "minilm"
CONFIG = """
[model]
layers = 2
hidden = 32
heads = 2
sequence = 32
[data]
train = ["text"]
validation = ["text"]
[batch]
micro_batch = 2
micro_batches = 2
[device]
kind = "host"
threads = 1
[run]
steps = 4
"""
FOREVER = ("--set", "run.steps=100000000")
SLOW = (*FOREVER, "--set", "transfer.link_bandwidth=200000")  # a step takes about a second


class OperatorTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "run.toml").write_text(CONFIG)
        self.metrics = self.path / "m.jsonl"

    def tearDown(self):
        self.folder.cleanup()

    def start(self, *arguments, **more):
        metrics = () if "--metrics" in arguments else ("--metrics", "m.jsonl")
        process = subprocess.Popen([TOOLS / "l2l-train", "run.toml", *metrics, *arguments], cwd=self.path, text=True,
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
        self.addCleanup(process.kill)  # where the test fails while it runs
        return process

    def run_to_end(self, *arguments, status=0, **more):
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, status, err)
        return out, err

    def steps(self):
        lines = self.metrics.read_text().splitlines(keepends=True) if self.metrics.exists() else []
        lines = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line["step"] for line in lines if "loss" in line]

    def wait_for(self, condition, process):
        until = time.monotonic() + 100
        while not condition():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def checkpoints(self):
        return sorted(path.parent.name for path in self.path.glob("checkpoints/run/step-*/manifest.json"))

    def check_saved(self, process, names):
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        summary = json.loads(out.splitlines()[-1])
        self.assertEqual((summary["finished"], summary["reason"]), (False, "interrupt"))
        self.assertEqual(summary["steps"], self.steps()[-1])
        self.assertEqual(self.checkpoints()[-1], f"step-{summary['steps']:08}")
        self.assertIn(names, err)
        return summary

    def test_hup_and_xcpu_save(self):
        process = self.start(*FOREVER)
        self.wait_for(lambda: len(self.steps()) > 2, process)
        process.send_signal(signal.SIGHUP)
        self.check_saved(process, "SIGHUP: finishing step")
        # The kernel sends XCPU again every second.
        process = self.start(*FOREVER, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 60)))
        self.check_saved(process, "interrupted by SIGXCPU: step")

    def test_a_signal_within_a_validation_names_it(self):
        process = self.start(*SLOW, "--set", 'data.validation=["text"]', "--set", "run.validate_every=1")
        self.wait_for(lambda: len(self.steps()) == 1, process)
        time.sleep(0.1)
        process.terminate()
        self.assertEqual(self.check_saved(process, "SIGTERM: dropping the validation after step 1, then saving in")["steps"], 1)

    def test_a_signal_within_the_last_validation_says_how_to_make_it_up(self):
        (self.path / "long").write_text("a long text to validate with. " * 8000)
        validated = ("--set", 'data.validation=["long"]')
        process = self.start(*validated, "--set", "run.validate_every=3")  # of which the first is made
        self.wait_for(lambda: self.checkpoints()[-1:] == ["step-00000004"], process)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        self.assertEqual((process.returncode, json.loads(out.splitlines()[-1])["finished"]), (0, True), err)
        self.assertIn("Ctrl-C: dropping the validation after step 4; Ctrl-C twice more", err)
        self.assertIn("the validation after the last step was dropped: it can be made up", err)
        line = next(line for line in err.splitlines() if line.startswith("to go on: "))
        (self.path / "long").write_text("a long text to validate with. " * 100)
        done = subprocess.run(line.removeprefix("to go on: "), shell=True, cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNotNone(json.loads(done.stdout.splitlines()[-1])["validation_loss"])

    def test_a_run_that_must_finish_says_by_its_status_that_it_has_not(self):
        process = self.start(*FOREVER, "--must-finish")
        self.wait_for(lambda: len(self.steps()) > 2, process)
        process.terminate()
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(json.loads(out.splitlines()[-1])["reason"], "interrupt")
        out, _ = self.run_to_end(*FOREVER, "--must-finish", "--set", "run.seconds=1", status=130)
        summary = json.loads(out)
        self.assertEqual((summary["finished"], summary["reason"]), (False, "seconds"))
        out, _ = self.run_to_end("--must-finish")
        summary = json.loads(out)
        self.assertEqual((summary["finished"], summary["reason"]), (True, "steps"))

    def test_the_last_line_of_a_failure_says_what_to_type_next(self):
        _, err = self.run_to_end("--set", "model.layers=0", "--set", """data.train=["it's here"]""", status=2)
        self.assertEqual(err.splitlines()[-1], f"once that is fixed, check it with: {TOOLS}/l2l-train run.toml --metrics m.jsonl --set model.layers=0 "
                                               """--set 'data.train=["it'\\''s here"]' --dry-run""")
        _, err = self.run_to_end("--resume", "nowhere", "--dry-run", status=2)
        self.assertEqual(err.splitlines()[-1], f"once that is fixed: {TOOLS}/l2l-train run.toml --metrics m.jsonl --resume nowhere --dry-run")
        with open("/dev/full", "w") as full:
            _, err = self.run_to_end(status=1, stdout=full)
            line = err.splitlines()[-1]
            self.assertEqual(line, f"to go on: {TOOLS}/l2l-train run.toml --metrics m.jsonl --resume checkpoints/run")
        done = subprocess.run(line.removeprefix("to go on: "), shell=True, cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_to_type_next_can_be_typed(self):
        """A new folder of its own is in the way of the same command, and a run without a checkpoint begins where it began."""
        def last_line(*arguments, status):
            done = subprocess.run([str(TOOLS / "l2l-train"), *arguments], cwd=self.path, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stderr.splitlines()[-1]
        self.assertEqual(last_line(status=2), f"for examples: {TOOLS}/l2l-train --help")
        chosen = ("--pretrained", "nowhere", "--data", "rows.jsonl", "--output", "out")
        self.assertEqual(last_line(*chosen, status=2), f"once that is fixed: {TOOLS}/l2l-train {' '.join(chosen)}")
        wild = ("run.toml", "--set", "optimizer.learning_rate=1e25", "--output", "out")
        self.assertEqual(last_line(*wild, status=1), f"once out is removed, to start again: {TOOLS}/l2l-train {' '.join(wild)}")
        self.assertEqual(last_line(*wild, "--resume-if-any", status=1), f"to start again: {TOOLS}/l2l-train {' '.join(wild)} --resume-if-any")
        self.run_to_end()
        further = ("run.toml", "--resume", "checkpoints/run", "--set", "optimizer.learning_rate=1e25", "--allow-change",
                   "optimizer.learning_rate", "--set", "checkpoint.directory=other", "--steps", "99")
        self.assertEqual(last_line(*further, status=1), f"to start again: {TOOLS}/l2l-train {' '.join(further)}")

    def test_a_run_that_is_stopped_says_how_to_go_on(self):
        process = self.start(*FOREVER)
        self.wait_for(lambda: len(self.steps()) > 2, process)
        process.terminate()
        out, err = process.communicate(timeout=100)
        step = json.loads(out.splitlines()[-1])["steps"]
        line = err.splitlines()[-1]
        self.assertRegex(line, f"^to go on: {TOOLS}/l2l-train run.toml --metrics m.jsonl .* --resume checkpoints/run$")
        done = subprocess.run(f"{line.removeprefix('to go on: ')} --steps {step + 1}", shell=True, cwd=self.path, capture_output=True,
                              text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"resumed from checkpoints/run/step-{step:08}", done.stderr)
        self.assertNotIn("to go on", done.stderr)

    def test_the_reason_is_that_of_the_moment_when_the_run_ended(self):
        """And not what the last validation, which finds nothing better, would make of it."""
        patient = (*FOREVER, "--set", "run.patience=1", "--set", "run.validate_every=100000000", "--set", "checkpoint.best=loss", "--set",
                   "optimizer.learning_rate=1e-30")
        self.run_to_end(*patient, "--steps", "1")
        out, _ = self.run_to_end(*patient, "--resume", "checkpoints/run", "--must-finish", "--set", "run.seconds=2", status=130)
        self.assertEqual(json.loads(out.splitlines()[-1])["reason"], "seconds")

    def test_a_step_that_diverges_leaves_the_one_before_and_advice(self):
        wild = ("--set", "optimizer.name=sgd", "--set", "optimizer.learning_rate=1e12", "--set", "optimizer.max_norm=1e12",
                "--set", "schedule.warmup_steps=0")
        out, err = self.run_to_end(*FOREVER, *wild, "--set", "optimizer.clip=global", status=1)
        self.assertEqual(out, "")
        failed = int(re.search("step ([0-9]+): layer .* is not finite", err).group(1))
        self.assertIn("what usually helps: a lower optimizer.learning_rate (now 1e+12), a longer schedule.warmup_steps (now 0)", err)
        self.assertRegex(err, f"step {failed - 1} is now saved: checkpoints/run/step-0*{failed - 1}\n")
        self.assertRegex(err, "\nto go on: [^\n]*/l2l-train run.toml --metrics m.jsonl [^\n]* --resume checkpoints/run\n$")
        # With weights that are so large the same happens again, but it goes on from there.
        _, err = self.run_to_end("--resume", "checkpoints/run", *FOREVER, *wild, "--set", "optimizer.clip=global",
                                 "--set", "optimizer.learning_rate=1e-9", "--allow-change", "optimizer.learning_rate", status=1)
        self.assertIn(f"resumed from checkpoints/run/step-{failed - 1:08}", err)
        self.assertIn(f"step {failed}: layer ", err)
        # Where each layer is updated at once, the others have gone on: nothing is saved, and the last checkpoint is named.
        _, err = self.run_to_end(*FOREVER, *wild, "--set", "optimizer.clip=none", "--set", "checkpoint.every=1", status=1)
        self.assertIn('optimizer.clip = "global" (now "none")', err)
        self.assertRegex(err, "the last checkpoint is checkpoints/run/step-0*([0-9]+), after step \\1\n")

    def test_a_hup_that_was_ignored_stays_ignored(self):
        process = self.start(*FOREVER, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(lambda: len(self.steps()) > 2, process)
        process.send_signal(signal.SIGHUP)
        seen = len(self.steps())
        self.wait_for(lambda: len(self.steps()) > seen + 5, process)
        process.terminate()
        self.check_saved(process, "interrupted by SIGTERM")

    def test_usr1_saves_and_goes_on(self):
        process = self.start(*FOREVER)
        self.wait_for(lambda: len(self.steps()) > 2, process)
        process.send_signal(signal.SIGUSR2)
        process.send_signal(signal.SIGUSR1)
        self.wait_for(self.checkpoints, process)
        first, seen = self.checkpoints(), len(self.steps())
        self.wait_for(lambda: len(self.steps()) > seen, process)
        process.terminate()
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("saved checkpoints/run/" + first[0], err)
        self.assertRegex(err, "SIGUSR2: running step [0-9]+; the threads:\n")
        for thread in ("relay 0", "eps updater 0", "weight feeder 0"):
            self.assertRegex(err, "\n" + thread + ": in [a-z]")
        self.assertEqual(len(self.checkpoints()), 2)

    def test_before_the_run_signals_act_as_usual(self):
        os.mkfifo(self.path / "waits")
        process = self.start("--set", 'data.validation=["text"]', "--set", 'model.pretrained=""', "--trace", "waits")
        self.wait_for(lambda: (self.path / "waits").exists(), process)
        time.sleep(1)  # it waits for somebody who reads the trace
        process.terminate()
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_the_second_term_waits_and_the_third_gives_up(self):
        for count, status in ((2, 0), (3, -signal.SIGTERM)):
            self.metrics.unlink(missing_ok=True)
            before = self.checkpoints()
            process = self.start(*SLOW)
            self.wait_for(self.steps, process)
            for _ in range(count):
                process.terminate()
                time.sleep(0.05)
            out, err = process.communicate(timeout=100)
            self.assertEqual(process.returncode, status, err)
            self.assertIn("SIGTERM again: finishing step", err)
            if status != 0:
                self.assertEqual(out, "")
                self.assertEqual(self.checkpoints(), before[:0])  # those of the run before were set aside

    def test_output_that_goes_away_does_not_stop_a_run(self):
        read, write = os.pipe()
        process = self.start(stderr=write)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        out, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(json.loads(out.splitlines()[-1])["steps"], 4)

    def test_messages_that_nobody_reads_do_not_hold_a_run(self):
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        process = self.start("--set", "checkpoint.every=1", stderr=write)
        out, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(json.loads(out.splitlines()[-1])["steps"], 4)
        self.metrics.unlink()
        process = self.start(*SLOW, stderr=write)
        self.wait_for(self.steps, process)
        for _ in range(200):  # which are counted, although nobody can be told
            process.terminate()
            time.sleep(0.05)
            if process.poll() is not None:
                break
        process.communicate(timeout=100)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        os.close(write)
        os.close(read)
        self.metrics.unlink()
        master, terminal = pty.openpty()  # has room for some 20 kB
        process = self.start("--set", "checkpoint.every=1", "--set", "run.steps=600", stderr=terminal)
        process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0)
        os.close(terminal)
        os.close(master)

    def test_a_last_line_that_is_lost_is_a_failure(self):
        read, write = os.pipe()
        os.close(read)
        with open("/dev/full", "w") as full, os.fdopen(write, "w") as closed:
            for output in (full, closed):
                self.metrics.unlink(missing_ok=True)
                _, err = self.run_to_end(status=1, stdout=output)
                message, line = err.splitlines()[-2].split("its last line is ")
                self.assertIn("standard output cannot be written", message)
                self.assertEqual(json.loads(line)["steps"], 4)
                self.assertEqual(self.checkpoints(), ["step-00000004"])
            for tool, arguments in (("l2l-plan", ["run.toml"]), ("l2l-eval", ["checkpoints/run", "--data", "text"]), ("l2l-report", ["m.jsonl"]),
                                    ("l2l-sample", ["checkpoints/run", "--prompt", "the", "--tokens", "3"])):
                done = subprocess.run([TOOLS / tool, *arguments], cwd=self.path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("standard output cannot be written", done.stderr)

    def test_pipes_directories_and_devices_are_no_files(self):
        os.mkfifo(self.path / "pipe")
        self.run_to_end()
        for special in ("pipe", ".", "/dev/zero"):
            for tool, arguments in (("l2l-train", [special]), ("l2l-plan", [special]), ("l2l-plan", ["--problem", special]),
                                    ("l2l-plan", ["--trace", special, "--budget", "1GiB"]), ("l2l-report", [special]),
                                    ("l2l-eval", ["checkpoints/run", "--tokens", special, "--logits", "x.npy"]),
                                    ("l2l-eval", ["checkpoints/run", "--data", special])):
                done = subprocess.run([TOOLS / tool, *arguments], cwd=self.path, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, (tool, arguments, done.stderr))
                self.assertIn(special, done.stderr)
        for value in ("nan", "inf", "-1"):
            for option in ("--temperature", "--top-p"):
                done = subprocess.run([TOOLS / "l2l-sample", "checkpoints/run", "--prompt", "a", option, value], cwd=self.path,
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(option, done.stderr)

    def test_metrics_through_a_pipe(self):
        os.mkfifo(self.path / "pipe")
        process = self.start("--metrics", "pipe")
        with (self.path / "pipe").open() as pipe:
            steps = [json.loads(line)["step"] for line in pipe]
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(steps[:4], [1, 2, 3, 4])
        self.assertIn("--metrics pipe is a pipe: waiting for its reader", err)

    def test_files_that_are_there_already(self):
        self.run_to_end("--trace", "t.json")
        first, trace = self.metrics.read_text(), (self.path / "t.json").read_text()
        self.run_to_end("--trace", "t.json")
        self.assertEqual((self.path / "m.jsonl.earlier-1").read_text(), first)
        self.assertEqual((self.path / "t.json.earlier-1").read_text(), trace)
        for _ in range(2):  # a run without steps has metrics, too
            self.run_to_end("--set", "run.steps=0", "--metrics", "none.jsonl")
        self.assertTrue((self.path / "none.jsonl.earlier-1").is_file())
        self.run_to_end()
        self.assertTrue((self.path / "m.jsonl.earlier-2").exists())
        for option in ("--metrics", "--trace"):
            for name in ("text", "run.toml", "checkpoints/run/step-00000004/manifest.json"):
                before = (self.path / name).read_bytes()
                _, err = self.run_to_end(option, name, status=2)
                self.assertIn(f"{option} {name}: is there already", err)
                self.assertEqual((self.path / name).read_bytes(), before)
        self.run_to_end("--metrics", "/dev/null")

    def test_outputs_are_different_files(self):
        for trace in ("m.jsonl", "./m.jsonl"):
            _, err = self.run_to_end("--trace", trace, status=2)
            self.assertIn(f"--trace {trace}: is the file of --metrics, too", err)
        self.run_to_end("--metrics", "/dev/null", "--trace", "/dev/null")

    def test_files_of_the_folder_of_a_run_are_its_own(self):
        (self.path / "empty").mkdir()
        before = sorted(self.path.iterdir())
        for option in ("--metrics", "--trace"):
            for name in ("new/config.toml", "./new/run.json", "new/report.html", "new/checkpoints"):
                _, err = self.run_to_end("--output", "new", option, name, status=2)
                self.assertIn(f"{option} {name}: is the file of --output, too; name another one", err)
                self.assertEqual(sorted(self.path.iterdir()), before)
        self.run_to_end("--output", "empty", "--trace", "empty/config.toml", status=2)
        _, err = self.run_to_end("--set", "checkpoint.directory=m.jsonl", status=2)
        self.assertIn("--metrics m.jsonl: is the file of checkpoint.directory, too", err)
        _, err = self.run_to_end("--output", "new", "--trace", "new/metrics.jsonl", status=2)  # which l2l-report reads
        self.assertIn("--trace new/metrics.jsonl: is the file of --output, too", err)
        self.run_to_end("--output", 300 * "x", status=2)
        self.assertEqual([*sorted(self.path.iterdir()), *(self.path / "empty").iterdir()], before)
        # Others may lie in it, however it is spelt.
        self.run_to_end("--output", "./new", "--metrics", "new/m.jsonl", "--trace", "../" + self.path.name + "/new/t.json")
        self.assertEqual(sorted(path.name for path in (self.path / "new").iterdir()), ["checkpoints", "config.toml", "m.jsonl", "run.json", "t.json"])

    def test_metrics_are_one_runs(self):
        first = self.start(*SLOW)
        self.wait_for(self.steps, first)
        for more in ((), ("--dry-run",)):
            _, err = self.run_to_end("--set", "checkpoint.directory=other", *more, status=2)
            self.assertIn("m.jsonl: another run is writing to it", err)
        self.assertFalse((self.path / "m.jsonl.earlier-1").exists())
        first.kill()
        first.communicate()
        self.run_to_end("--set", "checkpoint.directory=other")

    def test_evaluation_writes_over_what_is_its_own_alone(self):
        self.run_to_end()
        (self.path / "ids").write_text("1 2 3")

        def evaluate(*arguments, status=0):
            done = subprocess.run([TOOLS / "l2l-eval", "checkpoints/run", "--tokens", "ids", *arguments], cwd=self.path,
                                  capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stderr

        (self.path / "kept.npy").write_bytes(b"\x93NUMPY, of an evaluation before")
        evaluate("--logits", "l.npy", "--hidden", "h.npy", "--pooled", "kept.npy", status=2)  # there is no pooler
        self.assertEqual((self.path / "kept.npy").read_bytes(), b"\x93NUMPY, of an evaluation before")
        self.assertEqual(list(self.path.glob("[lh].npy")), [])
        evaluate("--logits", "l.npy", "--hidden", "h.npy")
        evaluate("--logits", "h.npy", "--hidden", "l.npy")
        for option in ("--logits", "--hidden"):
            for name in ("ids", "text", "checkpoints/run/step-00000004/config.json"):
                before = (self.path / name).read_bytes()
                self.assertIn(f"{option} {name}: is there already", evaluate(option, name, status=2))
                self.assertEqual((self.path / name).read_bytes(), before)
        self.assertIn("--hidden ./l.npy: is the file of --logits, too", evaluate("--logits", "l.npy", "--hidden", "./l.npy", status=2))
        self.assertIn("--logits /dev/null: is a pipe or device", evaluate("--logits", "/dev/null", status=2))

    def test_no_tool_writes_over_what_is_not_its_own(self):
        (self.path / "p.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,64\n")
        for tool, arguments, option, name in (
                ("l2l-plan", ["--problem", "p.csv"], "--output", "plan.csv"), ("l2l-plan", ["--problem", "p.csv"], "--svg", "plan.svg"),
                ("l2l-report", ["m.jsonl"], "--output", "page.html"), ("l2l-tokenize", [MODEL, "text"], "--output", "shard")):
            self.metrics.write_text('{"step": 1, "step_ms": 1, "loss": 2}\n')
            if MODEL in arguments and not MODEL.is_dir():
                continue
            command = [TOOLS / tool, *arguments, option]
            for output, status in ((name, 0), (name, 0), ("text", 2), ("run.toml", 2), ("p.csv", 2)):
                before = (self.path / output).read_bytes() if status else b""
                done = subprocess.run([*command, output], cwd=self.path, capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, status, done.stderr)
                if status:
                    self.assertIn(f"{option} {output}: is there already", done.stderr)
                    self.assertEqual((self.path / output).read_bytes(), before)

        command = [TOOLS / "l2l-plan", "--problem", "p.csv", "--output", "both", "--svg", "both"]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--svg both: is the file of --output, too", done.stderr)
        self.assertFalse((self.path / "both").exists())
        for name in ("run.json", "report.html"):
            (self.path / "out").mkdir(exist_ok=True)
            (self.path / "out" / name).write_text('{"mine": 1}')
            _, err = self.run_to_end("--output", "out", "--resume-if-any", status=2)
            self.assertIn(f"--output out/{name}: is there already", err)
            self.assertEqual((self.path / "out" / name).read_text(), '{"mine": 1}')
            (self.path / "out" / name).unlink()
        self.run_to_end("--output", "out", "--resume-if-any")
        self.run_to_end("--output", "out", "--resume-if-any", "--steps", "5")

    def test_a_resumed_run_appends_to_its_metrics_and_cuts_what_it_repeats(self):
        self.run_to_end("--set", "run.validate_every=2")
        whole = self.metrics.read_text().splitlines()
        self.run_to_end("--set", "run.validate_every=2", "--steps", "2", "--metrics", "n.jsonl")
        lines = (self.path / "n.jsonl").read_text().splitlines()
        (self.path / "n.jsonl").write_text("\n".join([*lines, whole[-2], whole[-1][:30]]))
        kept = (self.path / "n.jsonl").stat().st_ino
        self.run_to_end("--set", "run.validate_every=2", "--resume", "checkpoints/run", "--metrics", "n.jsonl")
        self.assertEqual((self.path / "n.jsonl").stat().st_ino, kept)
        what = [[{key: json.loads(line).get(key) for key in ("step", "loss", "validation_loss")} for line in text if "allocator" not in line]
                for text in ((self.path / "n.jsonl").read_text().splitlines(), whole)]
        self.assertEqual(what[0][:3], what[1][:3])
        self.assertEqual([line for line in what[0] if line["loss"]], [line for line in what[1] if line["loss"]])
        self.assertEqual(what[0][-1], what[1][-1])

    def test_saves_and_validations_by_time(self):
        process = self.start(*FOREVER, "--set", "checkpoint.minutes=0.005", "--set", "run.validate_minutes=0.005")
        self.wait_for(lambda: len(self.checkpoints()) == 2 and self.metrics.read_text().count("validation_loss") > 1, process)
        process.terminate()
        _, err = process.communicate(timeout=100)
        self.assertGreaterEqual(err.count("saved checkpoints/run/step-"), 2)

    def test_a_checkpoint_directory_is_one_runs(self):
        first = self.start(*SLOW)
        self.wait_for(self.steps, first)
        before = sorted(self.path.rglob("*"))
        for more in ((), ("--dry-run",), ("--set", "checkpoint.directory=checkpoints/../checkpoints/run")):
            _, err = self.run_to_end("--metrics", "n.jsonl", *more, status=2)
            self.assertIn(f": process {first.pid} on {os.uname().nodename} saves into it", err)
        self.assertEqual(sorted(self.path.rglob("*")), before)
        first.kill()
        first.communicate()
        self.run_to_end("--metrics", "n.jsonl")

    def test_a_checkpoint_directory_that_is_moved_is_locked_anew(self):
        directory = self.path / "checkpoints/run"
        first = self.start(*SLOW, "--set", "checkpoint.every=1")
        self.wait_for(lambda: self.checkpoints() and not list(directory.glob(".step-*")), first)  # between two saves
        directory.rename(self.path / "moved")
        self.wait_for(lambda: directory.exists() and self.checkpoints(), first)
        _, err = self.run_to_end("--metrics", "n.jsonl", "--resume-if-any", status=2)
        self.assertIn(f": process {first.pid} on {os.uname().nodename} saves into it", err)
        first.terminate()
        _, err = first.communicate(timeout=100)
        self.assertEqual(first.returncode, 0, err)
        self.assertIn("was moved or removed while this run saves there; it is made anew", err)

    def test_a_checkpoint_that_is_read_is_not_removed(self):
        every = ("--set", "checkpoint.every=1", "--set", "checkpoint.keep=1")
        self.run_to_end("--steps", "2", *every)
        with open(self.path / "checkpoints/run/step-00000002/manifest.json") as manifest:
            fcntl.flock(manifest, fcntl.LOCK_SH)
            self.run_to_end("--resume", "checkpoints/run", *every)
            self.assertEqual(self.checkpoints(), ["step-00000002", "step-00000004"])
            _, err = self.run_to_end(*every, status=1)  # would move it to earlier-1
            self.assertIn("is being read by another program", err)
        self.run_to_end("--resume", "checkpoints/run", "--steps", "5", *every)
        self.assertEqual(self.checkpoints(), ["step-00000005"])

    def test_directories_that_cannot_hold_checkpoints(self):
        os.mkfifo(self.path / "pipe")
        (self.path / "dangling").symlink_to("nowhere/at/all")
        before = sorted(self.path.rglob("*"))
        for directory in ("/proc/x", "/dev/null", "pipe", "dangling", "text", "text/below", "new/" + 300 * "x"):
            for more in ((), ("--dry-run",)):
                _, err = self.run_to_end("--quiet", "--set", f"checkpoint.directory={directory}", *more, status=2)
                self.assertIn(f"checkpoint.directory {directory}: cannot hold checkpoints: ", err)
                self.assertEqual(sorted(self.path.rglob("*")), before)
        self.run_to_end("--dry-run", "--set", "checkpoint.directory=new/deep/down")
        self.assertEqual(sorted(self.path.rglob("*")), before)

    def test_room_for_checkpoints(self):
        disk = self.path / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", disk], capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted")
        try:
            _, err = self.run_to_end("--set", "checkpoint.directory=disk/run", status=2)  # two of 414 KiB
            self.assertRegex(err, r"disk/run: .* are free, a checkpoint has .*: for 2 of them, short by .*; make room")
            self.assertEqual(list(disk.iterdir()), [])
            once = ("--set", "checkpoint.directory=disk/run", "--set", "checkpoint.minutes=0")
            self.run_to_end(*once)
            self.run_to_end(*once, "--resume", "disk/run", "--steps", "5", status=2)
            subprocess.run(["mount", "-o", "remount,size=1400k", disk], check=True)  # for three
            shutil.rmtree(disk / "run")
            two = ("--set", "checkpoint.directory=disk/run", "--set", "checkpoint.every=2", "--set", "checkpoint.minutes=0")
            self.run_to_end(*two, "--steps", "4")
            self.run_to_end(*two, "--resume", "disk/run", "--steps", "6")
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_long_run_that_saves_nothing_is_warned_of(self):
        for minutes, expected in ((0, 1), (30, 0)):
            self.metrics.unlink(missing_ok=True)
            process = self.start(*FOREVER, "--set", f"checkpoint.minutes={minutes}")
            self.wait_for(lambda: len(self.steps()) > 5, process)
            process.terminate()
            _, err = process.communicate(timeout=100)
            self.assertEqual(err.count("warning: nothing is saved before the end, in about"), expected)

    def test_a_folder_of_the_run(self):
        self.run_to_end("--output", "out", "--metrics", "out/metrics.jsonl", "--trace", "out/trace", "--set", "run.validate_every=2")
        out = self.path / "out"
        (out / "trace").unlink()
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["checkpoints", "config.toml", "metrics.jsonl", "report.html", "run.json"])
        record, report = json.loads((out / "run.json").read_text()), (out / "report.html").read_text()
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sum(line["bytes"] for line in record["memory"]["host"]), record["memory"]["host_bytes"])
        for text in (record["machine"], "Memory of", "weight slots", f"{lines[0]['device_peak_bytes'] / 2**20:.6g}"):
            self.assertIn(text, report)
        # The run read its metrics piece by piece, and drew what all of them at once make.
        subprocess.run([TOOLS / "l2l-report", out, "--output", "whole.html"], cwd=self.path, check=True, capture_output=True, timeout=100)
        self.assertEqual((self.path / "whole.html").read_text(), report)
        _, err = self.run_to_end("--output", "out", status=2)
        self.assertIn("is there already and not empty", err)
        before = (out / "config.toml").read_bytes()
        resumed = ("--output", "out", "--metrics", "out/metrics.jsonl", "--set", "run.validate_every=2", "--resume", "out")
        self.run_to_end(*resumed, "--steps", "6")
        self.assertEqual(sorted(path.name for path in out.glob("config*")), ["config.toml"])
        self.assertEqual(json.loads((out / "run.json").read_text())["resumed_at"], 4)
        self.assertEqual([step["step"] for step in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in step],
                         [1, 2, 3, 4, 5, 6])
        # Its config makes the same run again.
        subprocess.run([TOOLS / "l2l-train", "out/config.toml", "--quiet", "--set", "checkpoint.directory=again"], cwd=self.path, check=True,
                       capture_output=True, timeout=100)
        hashes = [json.loads((self.path / folder / "step-00000004/manifest.json").read_text())["tensors"]
                  for folder in ("out/checkpoints", "again")]
        self.assertEqual(*hashes)
        # It can be planned.
        done = subprocess.run([TOOLS / "l2l-plan", "out", "--no-measure"], cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, json.loads(done.stdout)["parameters"] > 0), (0, True), done.stderr)
        # Resumed with other settings, the folder has those, and keeps the ones of before.
        slower = ("--set", "optimizer.learning_rate=0.0005", "--allow-change", "optimizer.learning_rate")
        _, err = self.run_to_end(*resumed, "--steps", "6", *slower)
        self.assertIn("settings have changed: out/config.toml has those of now, out/config-until-step-6.toml those of before", err)
        self.assertEqual((out / "config-until-step-6.toml").read_bytes(), before)
        self.assertIn("learning_rate = 5e-04", (out / "config.toml").read_text())
        (out / "config-until-step-6.toml").replace(out / "config.toml")
        # The folder stands for its checkpoints.
        _, err = self.run_to_end("--output", "out", "--metrics", "out/metrics.jsonl", "--resume", "out", "--steps", "7")
        self.assertIn("resumed from out/checkpoints/step-00000006", err)
        os.truncate(out / "checkpoints/step-00000007/model.safetensors", 100)
        _, err = self.run_to_end("--output", "out", "--metrics", "out/metrics.jsonl", "--resume", "out", "--steps", "7")
        self.assertIn("resuming from out/checkpoints/step-00000006: step 7 is lost and will be repeated", err)
        for tool, *arguments in (("l2l-sample", "out", "--prompt", "x", "--tokens", "1"), ("l2l-eval", "out", "--data", "text"),
                                 ("l2l-export", "out", "exported")):
            done = subprocess.run([TOOLS / tool, *arguments], cwd=self.path, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([TOOLS / "l2l-export", "out", "out.gguf"], cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 2)
        self.assertIn("out.gguf: is the name of a GGUF file, but --format hf makes a directory; add --format gguf", done.stderr)
        self.assertFalse((self.path / "out.gguf").exists())

    def test_runs_that_start_at_the_same_time_make_the_same_folders(self):
        cache = {**os.environ, "XDG_CACHE_HOME": str(self.path / "new/cache")}
        (self.path / "rows.jsonl").write_text('{"text": "the quick brown fox jumps"}\n' * 100)
        rows = ("--set", "data.train=rows.jsonl", "--set", "data.validation=[]")
        for round in range(3):
            runs = [self.start("--output", f"{round}/x/y/{n}", "--metrics", f"{round}/x/y/{n}/m.jsonl", "--steps", "1", *rows, env=cache)
                    for n in range(8)]
            for run in runs:
                _, err = run.communicate(timeout=100)
                self.assertEqual(run.returncode, 0, err)
            self.assertEqual(len(list(self.path.glob(f"{round}/x/y/*/checkpoints/step-*"))), 8)
            shutil.rmtree(self.path / "new")

    def test_no_output_is_where_checkpoints_are(self):
        directory = self.path / "checkpoints/run"
        self.run_to_end()
        before = sorted(directory.rglob("*"))
        for option in ("--metrics", "--trace"):
            for name in ("step-00000006", "step-00000004/new", "best"):
                _, err = self.run_to_end("--resume", directory, "--steps", "6", option, directory / name, status=2)
                self.assertIn(f"{option} {directory / name}: is where checkpoints of checkpoints/run are written", err)
                self.assertEqual(sorted(directory.rglob("*")), before)
        self.run_to_end("--resume", directory, "--steps", "6", "--trace", directory / "trace")

    def test_a_dry_run_tells_the_settings_that_a_resume_changes(self):
        self.run_to_end()
        changed = ("--resume", "checkpoints/run", "--set", "optimizer.learning_rate=0.5", "--allow-change", "optimizer.learning_rate")
        for more in (("--dry-run",), ()):
            _, err = self.run_to_end(*changed, *more)
            self.assertEqual(err.count("going on with other settings than the checkpoint's: optimizer.learning_rate = 0.5 (was 0.001)"), 1, err)

    def test_only_the_folder_of_a_run_is_gone_on_from(self):
        def refusal(output):
            return self.run_to_end("--output", output, "--metrics", "m.jsonl", status=2)[1].splitlines()[0]
        self.assertEqual(refusal("text"), "l2l-train: --output text: is a file; name a new folder")
        self.assertEqual(refusal("."), "l2l-train: --output .: is there already and not empty; name a new folder")
        (self.path / "out/checkpoints").mkdir(parents=True)
        self.assertEqual(refusal("out"), "l2l-train: --output out: is there already and not empty; name a new folder")
        (self.path / "out/checkpoints/step-00000001").mkdir()
        self.assertEqual(refusal("out"), "l2l-train: --output out: is there already and not empty; name a new folder, "
                                         "or continue its run with --resume out/checkpoints")

    @unittest.skipUnless(MODEL.is_dir(), "L2L_TEST_DATA has no minilm")
    def test_the_config_of_a_folder_begins_from_the_same_weights(self):
        (self.path / "run.toml").write_text(CONFIG.split("[data]")[1].join((f"""
[model]
pretrained = "{MODEL}"
new_head = true
sequence = 32
[data]""", "[checkpoint]\ndirectory = \"first\"\n")))
        hashes = []
        for config, more in (("run.toml", ("--output", "out")), ("out/config.toml", ("--set", "checkpoint.directory=second"))):
            done = subprocess.run([TOOLS / "l2l-train", config, "--quiet", "--steps", "2", *more], cwd=self.path, capture_output=True,
                                  text=True, timeout=200, env={**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")})
            self.assertEqual(done.returncode, 0, done.stderr)
            hashes.append(json.loads(done.stdout.splitlines()[-1])["weights_hash"])
        self.assertEqual(*hashes)

    def test_the_config_of_a_folder_begins_in_another(self):
        self.run_to_end("--output", "out")
        kept = sorted(path.name for path in (self.path / "out/checkpoints").iterdir())
        hashes = []
        for folder, more in (("again", ()), ("third", ("--set", "checkpoint.directory=elsewhere"))):
            done = subprocess.run([TOOLS / "l2l-train", "out/config.toml", "--output", folder, "--quiet", *more], cwd=self.path,
                                  capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)
            hashes.append(json.loads(done.stdout.splitlines()[-1])["weights_hash"])
        self.assertEqual(*hashes)
        self.assertEqual(sorted(path.name for path in (self.path / "out/checkpoints").iterdir()), kept)
        self.assertTrue((self.path / "again/checkpoints/step-00000004/manifest.json").exists())
        (self.path / "again").rename(self.path / "moved")
        done = subprocess.run([TOOLS / "l2l-train", "moved/config.toml", "--output", "fourth", "--quiet"], cwd=self.path, capture_output=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.path / "again").exists())
        self.assertTrue((self.path / "fourth/checkpoints/step-00000004/manifest.json").exists())
        self.assertTrue((self.path / "elsewhere/step-00000004/manifest.json").exists())

    def test_a_folder_that_is_moved_or_copied_has_its_own_checkpoints(self):
        def saved(folder):
            return sorted(path.name for path in (self.path / folder / "checkpoints").glob("step-*"))

        def train(*arguments):
            done = subprocess.run([TOOLS / "l2l-train", *arguments], cwd=self.path, capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        self.run_to_end("--output", "out")
        (self.path / "out").rename(self.path / "moved")
        shutil.copytree(self.path / "moved", self.path / "copy")
        self.assertIn("resumed from moved/checkpoints/step-00000004", train("moved/config.toml", "--resume-if-any", "--steps", "5"))
        said = train("copy/config.toml", "--output", "copy", "--resume-if-any", "--steps", "6")
        self.assertIn("resumed from copy/checkpoints/step-00000004", said)
        self.assertNotIn("settings have changed", said)
        self.assertEqual((saved("moved"), saved("copy")), (["step-00000004", "step-00000005"], ["step-00000004", "step-00000006"]))
        self.assertFalse((self.path / "out").exists())
        shutil.copy(self.path / "copy/config.toml", self.path / "mine.toml")
        (self.path / "mine.toml").write_text((self.path / "mine.toml").read_text().replace(str(self.path / "copy"), str(self.path)))
        train("mine.toml", "--output", "second", "--steps", "2")
        self.assertEqual((saved("second"), saved("copy")), (["step-00000002"], ["step-00000004", "step-00000006"]))

    def test_the_config_of_a_folder_that_is_resumed(self):
        config, kept = self.path / "out/config.toml", self.path / "out/config-until-step-4.toml"
        self.run_to_end("--output", "out")
        first = config.read_text()
        # Edited in place, and used.
        config.write_text(first.replace("steps = 4", "steps = 5"))
        done = subprocess.run([TOOLS / "l2l-train", "out/config.toml", "--output", "out", "--resume", "out", "--quiet"], cwd=self.path,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("steps = 5", config.read_text())
        self.assertEqual(kept.read_text(), first)
        # A change that is given up leaves no trace.
        kept.unlink()
        older = self.path / "out/checkpoints/step-00000004"
        self.run_to_end("--output", "out", "--resume", older, "--set", "checkpoint.keep=7", "--steps", "4")
        self.assertIn("keep = 7", config.read_text())
        self.run_to_end("--output", "out", "--resume", older, "--steps", "4")
        self.assertEqual(config.read_text(), first)
        # What people wrote stays where nothing changes, and does no harm where it is no config.
        for text in (first.replace("[run]", "# mine\n[run]"), "[zzz]\n"):
            config.write_text(text)
            self.run_to_end("--output", "out", "--resume", older, "--steps", "4")
            self.assertEqual(config.read_text(), text)
        self.run_to_end("--output", "out", "--resume", older, "--steps", "4", "--set", "checkpoint.keep=7")
        self.assertIn("keep = 7", config.read_text())
        self.assertEqual(kept.read_text(), first)

    def test_weights_that_were_changed_are_not_exported(self):
        self.run_to_end("--set", "checkpoint.directory=run", "--set", "checkpoint.every=2")
        older, newest = self.path / "run/step-00000002", self.path / "run/step-00000004"
        with open(newest / "model.safetensors", "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-100, os.SEEK_END)
            file.write(bytes([byte ^ 1]))

        def export(source, target, *more, status=0):
            done = subprocess.run([TOOLS / "l2l-export", source, target, *more], cwd=self.path, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stderr

        changed = r"run/step-00000004/model.safetensors: tensor .* was changed after it was written \(checksum\)"
        for more in ((), ("--format", "gguf")):
            self.assertRegex(export(newest, "out", *more, status=2), changed)
            self.assertFalse((self.path / "out").exists())
        self.assertRegex(export("run", "tried"), "warning: .*" + changed + "; trying an older checkpoint")
        export(older, "asked")
        self.assertEqual(*[(self.path / name / "model.safetensors").read_bytes() for name in ("tried", "asked")])
        # Nor does a run begin from them.
        _, err = self.run_to_end("--set", f"model.pretrained={newest}", status=2)
        self.assertRegex(err, changed)
        self.run_to_end("--set", f"model.pretrained={older}")

    def test_a_run_goes_on_without_its_metrics(self):
        self.run_to_end("--output", "out")
        for more in (("--metrics", "new.jsonl", "--output", "out"), ("--output", "another")):
            _, err = self.run_to_end(*more, "--resume", "out", "--steps", "6")
            self.assertIn("resumed from out/checkpoints/step-00000004", err)
            shutil.rmtree(self.path / "out/checkpoints/step-00000006", ignore_errors=True)
        steps = [json.loads(line) for line in (self.path / "new.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in steps if "loss" in line], [5, 6])

    def test_a_trace_that_cannot_be_written_leaves_the_last_line(self):
        out, err = self.run_to_end("--trace", "/dev/full", status=1)
        self.assertEqual(json.loads(out.splitlines()[-1])["steps"], 4)
        self.assertIn("/dev/full", err)

    def test_a_report_does_not_replace_a_device(self):
        self.run_to_end("--output", "out", "--metrics", "out/metrics.jsonl")
        (self.path / "real.html").write_text("")
        (self.path / "link.html").symlink_to("real.html")
        subprocess.run([TOOLS / "l2l-report", "out", "--output", "link.html"], cwd=self.path, check=True, capture_output=True, timeout=100)
        self.assertTrue((self.path / "link.html").is_symlink())
        self.assertIn("<figcaption>Loss", (self.path / "real.html").read_text())
        try:
            os.mknod(self.path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            (self.path / "null").open("w").close()
        except OSError:
            self.skipTest("no device can be made and opened")
        subprocess.run([TOOLS / "l2l-report", "out", "--output", "null"], cwd=self.path, check=True, capture_output=True, timeout=100)
        self.assertTrue((self.path / "null").is_char_device())

    def test_a_folder_without_a_checkpoint_can_be_begun_in(self):
        (self.path / "run").mkdir()
        _, err = self.run_to_end("--set", "checkpoint.directory=run", "--resume", "run", status=2)
        self.assertIn("run: holds no complete checkpoint", err)
        self.assertRegex(err.splitlines()[-1], r"^to begin where there is no checkpoint: .* --resume run --resume-if-any$")
        for more in ((), ("--resume-if-any",)):  # which does not mend what else is wrong
            _, err = self.run_to_end("--resume", "run", *more, "--set", "model.layers=-3", status=2)
            self.assertRegex(err.splitlines()[-1], "^once that is fixed, check it with: .* --set model.layers=-3 --dry-run$")
        self.run_to_end("--set", "checkpoint.directory=run", "--resume", "run", "--resume-if-any")
        (self.path / "odd/manifest.json").mkdir(parents=True)
        self.run_to_end("--set", "checkpoint.directory=run", "--resume", "odd", status=2)

    def test_a_dry_run_of_one_of_several_processes_says_so(self):
        _, err = self.run_to_end("--set", "distributed.nodes=2", "--dry-run")
        self.assertIn("distributed.nodes = 2: this is what one of them takes; to train, start all of them (mpirun -n 2)", err)


if __name__ == "__main__":
    unittest.main()
