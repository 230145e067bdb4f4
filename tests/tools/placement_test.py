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


def remove(group):
    """Its last member may still be leaving."""
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)


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
            remove(folder)
    raise unittest.SkipTest("no control group of our own can be made here")


def threads_of(process):
    with contextlib.suppress(OSError):
        return len(list(pathlib.Path(f"/proc/{process}/task").iterdir()))
    return 0


class Placement(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "run.toml").write_text(CONFIG)

    def train(self, *arguments, topology=None, before=None):
        """Returns what the first screen says of the parameter server, the last line, and the most threads at a time."""
        environment = dict(os.environ, **({"HWLOC_XMLFILE": str(topology)} if topology else {}))
        with open(self.path / "out", "w+") as out, open(self.path / "err", "w+") as err:
            process = subprocess.Popen([TOOLS / "l2l-train", "run.toml", *arguments], cwd=self.path, stdout=out, stderr=err,
                                       env=environment, preexec_fn=before)
            threads = 0
            while process.poll() is None:
                threads = max(threads, threads_of(process.pid))
                time.sleep(0.01)
            out.seek(0)
            err.seek(0)
            said = err.read()
            self.assertEqual(process.returncode, 0, said)
            stated = [line for line in said.splitlines() if line.startswith("  parameter server: ")]
            self.assertEqual(len(stated), 1, said)
            return stated[0].removeprefix("  parameter server: "), json.loads(out.read().splitlines()[-1]), threads

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

    def test_a_quota_of_one_core(self):
        """No more threads than with one worker and one compute thread by hand; when more are asked for, there are."""
        def train(threads):
            by_hand = [f"--set={key}.threads={threads}" for key in ("eps", "device") if threads > 0]
            stated, summary, most = self.train("--steps", "60", "--set", 'checkpoint.directory=""', *by_hand,
                                               before=lambda: procs.write_text(str(os.getpid())))
            return stated, summary["weights_hash"], most

        with one_core_group() as procs:
            stated, expected, one = train(1)
            self.assertRegex(stated, r"^1 worker on node \d+ \(CPUs? [-0-9, ]+\)$")
            stated_alone, hash_alone, alone = train(0)
            self.assertEqual((stated_alone, hash_alone), (stated, expected))
            self.assertLessEqual(alone, one + 1)  # the least that is seen of a thread that starts or ends
            stated, weights_hash, four = train(4)
            self.assertIn("4 workers", stated)
            self.assertIn("; more than the 1 core that this process may use", stated)
            self.assertEqual(weights_hash, expected)
            self.assertGreaterEqual(four, one + 3)


if __name__ == "__main__":
    unittest.main()
