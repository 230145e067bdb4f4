#!/usr/bin/env python3
"""Ranks that are processes: the suite under mpirun, an abort of one of them, a program that mpirun did not start.

    mpi_test.py MPIRUN PROGRAM
"""
import os
import subprocess
import sys
import unittest

# As root, on fewer cores than ranks, and in containers that do not let one process read another's memory.
SURROUNDINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **SURROUNDINGS}, check=False)


class Mpi(unittest.TestCase):
    def test_ranks_that_are_processes(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                done = run(MPIRUN, "-n", str(ranks), PROGRAM)
                self.assertEqual((done.returncode, done.stdout), (0, f"{ranks} ranks\n"), done.stderr)

    def test_an_abort_ends_every_rank(self):
        done = run(MPIRUN, "-n", "3", PROGRAM, "--abort")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 2: rank gives up", done.stderr)
        self.assertNotIn("ranks", done.stdout)

    def test_a_program_that_nobody_launched_is_the_only_rank(self):
        done = run(PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (0, "1 ranks\n"), done.stderr)


if __name__ == "__main__":
    MPIRUN, PROGRAM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
