#!/usr/bin/env python3
"""What l2l-plan says of several nodes, against runs of several processes under mpirun: bytes, memory, steps.

    nodes_test.py FOLDER_OF_THE_TOOLS MPIRUN
"""
import json
import resource
import subprocess

import rank_runs
from rank_runs import ARGUMENTS

CONFIG = """
[model]
layers = 3
hidden = 64
heads = 2
sequence = 16
[data]
train = ["text"]
[batch]
micro_batch = 2
micro_batches = 24
[device]
kind = "host"
threads = 1
[recompute]
policy = "full"
[eps]
threads = 1
[run]
steps = 3
"""
CASES = {
    "eager": [],
    "held, bf16": ['optimizer.clip="global"', 'precision.compute="bf16"'],
    "two devices": ["device.count=2"],
    "LAMB": ['optimizer.name="lamb"'],
    "tables in chunks": ["transfer.vocabulary_chunk=100"],
    "tables that are not tied": ["model.tie_embeddings=false"],
    "parts": ["batch.parts=8"],
    "a frozen part": ['optimizer.train=["h.2.*"]'],
    "sharded weights": ['distributed.wire="sharded"'],
    "sharded weights that stay, two devices": ['distributed.wire="sharded"', "transfer.resident_layers=1", "device.count=2"],
    "sharded weights beside frozen ones": ['distributed.wire="sharded"', 'optimizer.train=["h.2.*", "h.0.mlp.c_fc.weight"]'],
}
TOLERANCE, ATTEMPTS = 0.15, 4


class Nodes(rank_runs.RankRuns):
    def setUp(self):
        super().setUp()
        (self.path / "run.toml").write_text(CONFIG)

    def run_tool(self, tool, *arguments, ranks=1, expected=0):
        launcher = [] if ranks == 1 else [ARGUMENTS.mpirun, "-n", str(ranks)]
        done = subprocess.run([*launcher, ARGUMENTS.tools / tool, *arguments], cwd=self.path, capture_output=True, text=True, timeout=300,
                              env=self.environment(), check=False)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done

    def named(self, settings):
        return [word for setting in settings for word in ("--set", setting)]

    def plan(self, *settings):
        return json.loads(self.run_tool("l2l-plan", "run.toml", "--no-measure", *self.named(settings)).stdout)

    def train(self, ranks, *settings):
        return json.loads(self.run_tool("l2l-train", "run.toml", "--quiet", *self.named(settings), ranks=ranks).stdout)

    def test_many_layers_on_many_nodes_take_a_moment(self):
        many = self.named(["model.layers=2000", "distributed.nodes=256", "batch.micro_batches=256"])
        self.run_tool("l2l-plan", "run.toml", *many)  # measures the pieces of a step
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        plan = json.loads(self.run_tool("l2l-plan", "run.toml", *many).stdout)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 8)
        self.assertGreater(plan["time"]["step_ms"], 0)

    def test_bytes_are_those_that_a_run_counts(self):
        for name, settings in CASES.items():
            for ranks in (2, 4):
                with self.subTest(f"{name}, {ranks} ranks"):
                    plan = self.plan(*settings, f"distributed.nodes={ranks}")
                    planned, run = plan["time"]["nodes"], self.train(ranks, *settings)
                    self.assertEqual(planned["nodes"], ranks)
                    self.assertEqual(run["network_sent_bytes"], 3 * sum(planned["sent_bytes"].values()))
                    self.assertEqual(run["network_received_bytes"], 3 * sum(planned["received_bytes"].values()))
                    more = 2 if name == "parts" else 3  # as many as share the minibatch equally
                    other = self.plan(*settings, f"distributed.nodes={more * ranks}")["time"]["nodes"]  # negative control
                    self.assertNotEqual(run["network_sent_bytes"], 3 * sum(other["sent_bytes"].values()))

    def test_memory_is_that_of_one_of_them(self):
        """But for the code of MPI, which a plan has not loaded, and for what ranks of one machine share."""
        def lines(lines_of):
            return {line["what"]: line["bytes"] for line in lines_of if not line["what"].startswith(("process", "messages"))}
        alone, planned = self.plan("batch.micro_batches=6"), self.plan("distributed.nodes=4")
        contract = self.run_tool("l2l-train", "run.toml", "--dry-run", ranks=4).stderr
        self.assertIn("memory before step 1, of each of 4 processes", contract)
        self.assertIn(f"({planned['device_bytes']} B)", contract)
        self.assertIn(f"({planned['pinned_bytes']} B)", contract)
        self.assertEqual(planned["device_bytes"], alone["device_bytes"])
        state = "weights and optimizer state"
        self.assertLess(lines(planned["host"])[state], 0.6 * lines(alone["host"])[state])
        self.assertIn("gradients from other ranks", lines(planned["host"]))
        sharded = self.plan("distributed.nodes=4", 'distributed.wire="sharded"')
        self.assertLess(lines(sharded["host"])[state], 0.3 * lines(alone["host"])[state])
        self.assertIn("layers' weights from all ranks", lines(sharded["host"]))

    def test_other_processes_than_planned_are_refused(self):
        settings = self.named(["distributed.nodes=4"])
        for ranks, says in ((1, "only plan for so many: start them with mpirun -n 4"), (2, "but 2 processes were started")):
            done = self.run_tool("l2l-train", "run.toml", *settings, ranks=ranks, expected=2)
            self.assertIn("distributed.nodes = 4", done.stderr)
            self.assertIn(says, done.stderr)
        self.run_tool("l2l-train", "run.toml", *settings, "--dry-run")
        self.assertEqual(self.train(2, "distributed.nodes=2")["ranks"], 2)

    def test_a_sampler_takes_what_several_have_trained(self):
        self.run_tool("l2l-train", "run.toml", "--quiet", "--output", "out", *self.named(["distributed.nodes=2"]), ranks=2)
        self.run_tool("l2l-sample", "out", "--prompt", "the", "--tokens", "2")

    def test_predicted_ms_of_a_run_has_the_network(self):
        self.run_tool("l2l-plan", "run.toml", *self.named(["distributed.nodes=2"]))  # measures
        def predicted(*settings):
            self.run_tool("l2l-train", "run.toml", "--quiet", "--metrics", "m", *self.named(settings), ranks=2)
            return [json.loads(line)["predicted_ms"] for line in (self.path / "m").read_text().splitlines() if "predicted_ms" in line][-1]
        free, slow = predicted(), predicted("distributed.bandwidth=0.001")  # measured, given
        sent = sum(self.plan("distributed.nodes=2")["time"]["nodes"]["sent_bytes"].values())
        self.assertGreater(slow, free + 0.8 * sent / 1e6)  # MB at 1 MB/s in ms

    def test_steps_are_as_long_as_predicted(self):
        """Real processes, paced devices and network: times follow from the schedule, and a little from busy cores."""
        for ranks in (2, 4):
            for attempt in range(ATTEMPTS):
                rows = json.loads(self.run_tool("l2l-bench", "ranks", "--json", ranks=ranks).stdout)
                errors = [abs(row["predicted_to_measured"] - 1) for row in rows]
                if max(errors) < TOLERANCE:
                    break
            self.assertLess(max(errors), TOLERANCE, rows)
            self.assertEqual([row["ranks"] for row in rows], [ranks] * 2)
            # Negative control: a model that knows of no network.
            self.assertGreater(abs(rows[1]["step_ms_free_network"] / rows[1]["step_ms"] - 1), 2 * TOLERANCE)


if __name__ == "__main__":
    rank_runs.main()
