"""Limits of the system, and configs that no machine can run: refused with need and limit, or met without harm.

    limits_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
MIB = 2**20
CONFIG = """
[model]
layers = 2
hidden = 16
heads = 2
sequence = 16
[data]
train = ["text"]
validation = ["text"]
[batch]
micro_batch = 2
micro_batches = 2
[device]
threads = 2
[eps]
threads = 2
[checkpoint]
directory = "saved"
every = 10
[run]
steps = 40
validate_every = 10
"""
# Each alone over CONFIG: (assignments, what the refusal says; None: it is planned).
EXTREMES = (
    (("model.layers=10000",), None),
    (("model.layers=10001",), "expected an integer from 1 to 10000"),
    (("model.layers=10000", "model.hidden=16384", "model.heads=128"), "host memory: needs"),
    (("model.layers=10000", "batch.micro_batches=16777215"), "host memory: needs"),
    (("model.layers=10000", "batch.micro_batches=100000"), "host memory: needs"),
    (("model.layers=10000", 'recompute.policy="min_cut"', "lora.rank=4"), None),
    (("batch.micro_batch=1048576", "batch.micro_batches=16777215"), "host memory: needs"),
    (("batch.micro_batches=16777215",), "host memory: needs"),
    (("model.vocabulary=16777216", "model.hidden=1024"), "host memory: needs"),
    (("eps.threads=1024", "device.threads=1024"), None),
)


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.path.chmod(0o777)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "run.toml").write_text(CONFIG)
        os.environ["L2L_CALIBRATION"] = str(self.path / "calibration.json")  # empty: measuring meets the limits as well

    def train(self, *arguments, limits=(), user=None):
        def restrict():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
            if user is not None:
                os.setuid(user)

        command = [str(TOOLS / "l2l-train"), "run.toml", "--quiet", *arguments]
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=100, preexec_fn=restrict)

    def test_any_config_is_planned_or_refused_at_once(self):
        for assignments, refusal in EXTREMES:
            with self.subTest(assignments):
                command = [str(TOOLS / "l2l-train"), "run.toml", "--quiet", "--dry-run"]
                for assignment in assignments:
                    command += ["--set", assignment]
                begin = time.monotonic()
                process = subprocess.Popen(command, cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                err = process.stderr.read()
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                process.stderr.close()
                self.assertEqual(process.returncode, 0 if refusal is None else 2, err)
                self.assertIn(refusal or "", err)
                if os.environ.get("L2L_SANITIZED") != "1":
                    # Of the processor where others are busy, on the clock where several threads are made at once.
                    self.assertLess(min(usage.ru_utime + usage.ru_stime, time.monotonic() - begin), 2)
                    self.assertLess(usage.ru_maxrss, 256 * 1024)

    def check(self, done, words, least):
        """A run to its end, or a refusal that names the limit; nothing on disk then."""
        if done.returncode == 127 and "shared" in done.stderr:
            return False  # the system could not even load the program
        if done.returncode == 0:
            return True
        self.assertIn(done.returncode, (1, 2), done.stderr)
        self.assertTrue(any(word in done.stderr for word in words), done.stderr)
        self.assertFalse((self.path / "saved").exists(), least)
        return False

    def sweep(self, which, values, words, **options):
        """From the smallest limit to one that is enough; then still the same result."""
        for value in values:
            with self.subTest(limit=value):
                done = self.train(limits=((which, value),), **options)
                # Libraries of the system that end the process before main(): oneTBB's allocator of Debian 13, libgomp. Near
                # the limit that depends on where the system has put them.
                starts = lambda: self.train("--version", limits=((which, value),), **options).returncode == 0
                theirs = done.returncode < 0 or "libgomp: " in done.stderr
                if done.returncode != 0 and not all(starts() for _ in range(60 if theirs else 1)):
                    continue
                if self.check(done, words, value):
                    expected = json.loads(self.train().stdout)["weights_hash"]
                    self.assertEqual(json.loads(done.stdout)["weights_hash"], expected)
                    return
        self.fail("no limit was enough")

    @unittest.skipIf(os.environ.get("L2L_SANITIZED") == "1", "sanitizers reserve terabytes")
    def test_address_space(self):
        self.sweep(resource.RLIMIT_AS, range(64 * MIB, 1024 * MIB, 8 * MIB), ("ulimit -v", "ulimit -u, -v, -d"))

    @unittest.skipIf(os.environ.get("L2L_SANITIZED") == "1", "sanitizers reserve terabytes")
    def test_private_memory(self):
        self.sweep(resource.RLIMIT_DATA, range(16 * MIB, 1024 * MIB, 8 * MIB), ("ulimit -d", "ulimit -u, -v, -d"))

    def test_open_files(self):
        self.sweep(resource.RLIMIT_NOFILE, range(6, 64), ("ulimit -n",))

    @unittest.skipUnless(os.getuid() == 0, "only root may become another user, whose limit on threads holds")
    def test_threads(self):
        nobody = 65534
        try:
            subprocess.run([str(TOOLS / "l2l-train"), "--help"], cwd=self.path, capture_output=True, user=nobody, check=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("another user cannot run the tools here")
        self.sweep(resource.RLIMIT_NPROC, range(1, 60), ("ulimit -u",), user=nobody)

    def test_every_thread_is_made_before_the_first_step(self):
        command = [str(TOOLS / "l2l-train"), "run.toml", "--metrics", "metrics", "--set", "run.steps=400"]
        process = subprocess.Popen(command, cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts = set()
        while process.poll() is None:
            try:
                lines = (self.path / "metrics").read_text().count("\n")
                if 0 < lines < 380:
                    counts.add(len(os.listdir(f"/proc/{process.pid}/task")))
            except OSError:
                pass
            time.sleep(0.001)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(counts), 1, counts)
        self.assertGreater(min(counts), 5)


if __name__ == "__main__":
    unittest.main()
