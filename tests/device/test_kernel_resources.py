#!/usr/bin/env python3
"""Controls for tools/kernel_resources.py: a kernel that takes more than the table says, or is not in it, is noticed.

usage: test_kernel_resources.py TOOL TABLE OBJECT...
"""
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, TABLE, OBJECTS = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]


def check(table):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(table)
        file.flush()
        return subprocess.run([sys.executable, TOOL, *OBJECTS, "--check", file.name], capture_output=True, text=True)


class KernelResources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = subprocess.run([sys.executable, TOOL, *OBJECTS], capture_output=True, text=True, check=True).stdout
        cls.rows = list(csv.DictReader(cls.table.split("\n")[1:]))

    def changed(self, field, difference):
        lines = self.table.split("\n")
        kernel = next(i for i, row in enumerate(self.rows) if "attention_forward" in row["kernel"])
        row = dict(self.rows[kernel])
        row[field] = str(int(row[field]) + difference)
        lines[kernel + 2] = ",".join(row.values())
        return row["kernel"], check("\n".join(lines))

    def test_its_own_table_is_held(self):
        result = check(self.table)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn(f"{len(self.rows)} kernels compared", result.stdout)

    def test_figures_are_possible(self):
        kernels = {row["kernel"] for row in self.rows}
        for name in ("attention_forward", "attention_backward_keys", "partial_sums", "softmax_rows"):
            self.assertTrue(any(name in kernel for kernel in kernels), name)
        for row in self.rows:
            self.assertTrue(1 <= int(row["registers"]) <= 255, row)
            self.assertTrue(0 <= int(row["shared"]) <= 48 * 1024, row)

    def test_growth_is_noticed(self):
        for field in ("registers", "local", "shared"):
            kernel, result = self.changed(field, -1)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{kernel} on sm_", result.stdout)
            self.assertIn(field, result.stdout)
            self.assertEqual(self.changed(field, 1)[1].returncode, 0)

    def test_a_new_kernel_is_noticed(self):
        lines = self.table.split("\n")
        del lines[5]
        result = check("\n".join(lines))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not in the table", result.stdout)

    def test_of_another_compiler_nothing_is_compared(self):
        lines = self.table.split("\n")
        self.assertEqual(check("\n".join(["# nvcc 1.0", *lines[1:]])).returncode, 77)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
