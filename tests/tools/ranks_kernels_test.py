#!/usr/bin/env python3
"""Kernels that are chosen by time, where l2l-train runs on two processes under mpirun, each on an emulated GPU with a clock
of its own: both take those of rank 0, and with --resume those of the checkpoint.

    ranks_kernels_test.py FOLDER_OF_THE_TOOLS MPIRUN EMULATED_MODULE
"""
import json

import rank_runs
from rank_runs import ARGUMENTS


class Kernels(rank_runs.RankRuns):
    def setUp(self):
        super().setUp()
        with open(self.path / "run.toml", "a", encoding="utf-8") as config:
            config.write('[checkpoint]\ndirectory = "saved"\n')

    def environment(self):
        return {**super().environment(), "L2L_CUDA_MODULE": str(ARGUMENTS.module), "L2L_CALIBRATION": str(self.path / "calibration.json")}

    def hash_where(self, *fastest, arguments=()):
        """Of a run with, by rank, another place of the algorithm that is the fastest among those that are offered."""
        there, elsewhere = (f"L2L_EMULATION_FASTEST_PRODUCT={place} exec {{line}}" for place in fastest)
        done = self.on_rank(2, 0, there, elsewhere, arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["weights_hash"]

    def forget(self):
        (self.path / "calibration.json").unlink()

    def test_all_ranks_take_those_of_rank_0(self):
        slow = self.hash_where(0, 0)
        self.forget()
        fast = self.hash_where(1, 1)
        self.assertNotEqual(fast, slow)  # bits depend on the kernels
        self.forget()
        self.assertEqual(self.hash_where(0, 1), slow)
        self.forget()
        self.assertEqual(self.hash_where(1, 0), fast)
        self.assertEqual(self.hash_where(0, 0), fast)  # known from the run before

    def test_a_resumed_run_takes_those_of_its_checkpoint(self):
        whole = self.hash_where(1, 1)
        self.hash_where(1, 1, arguments=("--steps", "3"))
        (self.path / "saved").rename(self.path / "first")
        self.forget()
        self.assertNotEqual(self.hash_where(0, 0), whole)
        self.assertEqual(self.hash_where(0, 0, arguments=("--resume", "first")), whole)


if __name__ == "__main__":
    rank_runs.main(paths=("module",))
