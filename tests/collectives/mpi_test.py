#!/usr/bin/env python3
"""Ranks that are processes: the suite under mpirun, an abort of one of them, a program that mpirun did not start.

    mpi_test.py MPIRUN PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from mpi_surroundings import SURROUNDINGS  # noqa: E402


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **SURROUNDINGS}, check=False)


class Mpi(unittest.TestCase):
    def test_ranks_that_are_processes(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                done = run(MPIRUN, "-n", str(ranks), PROGRAM)
                self.assertEqual((done.returncode, done.stdout), (0, f"{ranks} ranks\n"), done.stderr)

    def test_what_goes_wrong_on_a_rank_ends_all(self):
        for how, says in (("--abort", "rank 2: rank gives up"), ("--throw", "rank 2: ended by an error"),
                          ("--less", "it sent 5 bytes where 8 were expected")):
            with self.subTest(how):
                done = run(MPIRUN, "-n", "3", PROGRAM, how)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(says, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_processes_that_do_not_see_each_other_are_refused(self):
        os.environ["SLURM_STEP_NUM_TASKS"] = "2"
        self.addCleanup(os.environ.pop, "SLURM_STEP_NUM_TASKS")
        done = run(PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("started 2 processes (SLURM_STEP_NUM_TASKS), but each sees itself alone", done.stderr)

    def test_a_program_that_nobody_launched_is_the_only_rank(self):
        done = run(PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (0, "1 ranks\n"), done.stderr)


if __name__ == "__main__":
    MPIRUN, PROGRAM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
