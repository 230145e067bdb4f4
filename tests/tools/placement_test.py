"""Workers know their machine: what l2l-train states and does under another topology, an affinity mask and a quota.

    placement_test.py FOLDER_OF_THE_TOOLS TOPOLOGY.xml
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

TOPOLOGY = pathlib.Path(sys.argv.pop(2)).resolve()
TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
HAS_HWLOC = os.environ.get("L2L_HWLOC") == "1"

# Of the arithmetic, the parameter server has its share: few tokens, many parameters.
CONFIG = """
[model]
layers = 4
hidden = 128
heads = 2
sequence = 16
[data]
train = ["text"]
[batch]
micro_batch = 1
micro_batches = 1
[optimizer]
learning_rate = 1e-3
[device]
kind = "host"
[run]
steps = 8
"""


@contextlib.contextmanager
def one_core_group():
    """The file that takes members of a control group with the quota of one core; v1 or v2. Skips where there is none."""
    name = f"l2l-placement-test-{os.getpid()}"
    for mount, quota in ((pathlib.Path("/sys/fs/cgroup/cpu"), ("cpu.cfs_quota_us", "100000")),
                         (pathlib.Path("/sys/fs/cgroup"), ("cpu.max", "100000 100000"))):
        folder = mount / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if not (folder / quota[0]).exists():
                continue
            if quota[0] == "cpu.cfs_quota_us":
                (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / quota[0]).write_text(quota[1])
            yield folder / "cgroup.procs"
            return
        finally:
            folder.rmdir()
    raise unittest.SkipTest("no control group of our own can be made here")


def thread_seconds(process):
    """User and system time of each of its threads so far, by number."""
    ticks = os.sysconf("SC_CLK_TCK")
    seconds = {}
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError):
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            seconds[task.name] = (int(fields[11]) + int(fields[12])) / ticks
    return seconds


class Placement(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "run.toml").write_text(CONFIG)

    def train(self, *arguments, topology=None, before=None):
        """Returns what the first screen says of the parameter server, the last line, and seconds by thread."""
        environment = dict(os.environ, **({"HWLOC_XMLFILE": str(topology)} if topology else {}))
        with open(self.path / "out", "w+") as out, open(self.path / "err", "w+") as err:
            process = subprocess.Popen([TOOLS / "l2l-train", "run.toml", *arguments], cwd=self.path, stdout=out, stderr=err,
                                       env=environment, preexec_fn=before)
            seconds = {}
            while process.poll() is None:
                seconds.update(thread_seconds(process.pid))
                time.sleep(0.02)
            out.seek(0)
            err.seek(0)
            said = err.read()
            self.assertEqual(process.returncode, 0, said)
            stated = [line for line in said.splitlines() if line.startswith("  parameter server: ")]
            self.assertEqual(len(stated), 1, said)
            return stated[0].removeprefix("  parameter server: "), json.loads(out.read().splitlines()[-1]), seconds

    @unittest.skipUnless(HAS_HWLOC, "built without hwloc")
    def test_a_machine_of_two_nodes(self):
        _, expected, _ = self.train()
        nodes = "{} on node 0 (CPUs 0-3), {} on node 1 (CPUs 4-7)"
        nobody = "; nodes of another machine (HWLOC_XMLFILE): nobody is bound"
        available = len(os.sched_getaffinity(0))
        for threads in (2, 8):
            stated, summary, _ = self.train("--set", f"eps.threads={threads}", topology=TOPOLOGY)
            self.assertTrue(stated.startswith(f"{threads} workers: " + nodes.format(threads // 2, threads // 2)), stated)
            self.assertTrue(stated.endswith(nobody), stated)
            if threads > available:
                self.assertIn("; more than the ", stated)
            self.assertEqual(summary["weights_hash"], expected["weights_hash"])

    @unittest.skipUnless(HAS_HWLOC, "built without hwloc")
    def test_a_topology_that_cannot_be_read_is_passed_over(self):
        (self.path / "bad.xml").write_text("<topology")
        stated, _, _ = self.train(topology=self.path / "bad.xml")
        self.assertNotIn("HWLOC_XMLFILE", stated)

    def test_an_affinity_mask_of_one_cpu(self):
        cpu = max(os.sched_getaffinity(0))
        stated, _, _ = self.train(before=lambda: os.sched_setaffinity(0, {cpu}))
        self.assertRegex(stated, rf"^1 worker on node \d+ \(CPU {cpu}\)$")

    def busy_threads(self, procs, *arguments):
        stated, _, seconds = self.train("--steps", "60", *arguments, before=lambda: procs.write_text(str(os.getpid())))
        return stated, sum(second > 0.1 * sum(seconds.values()) for second in seconds.values()), seconds

    def test_a_quota_of_one_core(self):
        """No more threads compute than the device's stream and the updater; with more workers than cores they do."""
        with one_core_group() as procs:
            stated, busy, seconds = self.busy_threads(procs)
            self.assertRegex(stated, r"^1 worker on node 0 \(CPUs? [-0-9, ]+\)$")
            self.assertLessEqual(busy, 2, seconds)
            stated, busy, seconds = self.busy_threads(procs, "--set", "eps.threads=4", "--set", "device.threads=4")
            self.assertIn("4 workers", stated)
            self.assertIn("; more than the 1 core that this process may use", stated)
            self.assertGreater(busy, 2, seconds)


if __name__ == "__main__":
    unittest.main()
