"""The scripts of tools/compare: what they say where this machine lacks something, and what their tables begin with.

    compare_test.py FOLDER_OF_THE_TOOLS FOLDER_OF_THE_SCRIPTS
"""
import argparse
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS, SCRIPTS = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
COMPARE = SCRIPTS / "compare"
sys.path.insert(0, str(COMPARE))
import gpu_table  # noqa: E402
import pytorch_host  # noqa: E402

BARE = [sys.executable, "-S", "-E"]  # a Python with nothing but its own library
# Scripts that need more, and the arguments behind the folder of the tools.
NEEDY = {
    "chat_check.py": [], "fine_tuning.py": ["model", "reviews"], "gguf_check.py": ["source", "build"], "head_check.py": [],
    "hub_check.py": [], "hub_load.py": ["folder"], "lora_check.py": [], "omnimalloc_planner.py": [], "pyramid_digits.py": [],
    "pytorch_gpu.py": [], "pytorch_host.py": ["--json"], "pytorch_pyramid.py": ["--json"], "sample_speed.py": [], "shard_check.py": [],
    "tokenizer_check.py": []}
HEADER = re.compile(r".+, \d+ cores?, load [\d.]+; l2l-\w+ \d+\.\d+\.\d+.*, \w+; Python \d+\.\d+\.\d+")


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *command, status=0, **environment):
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout, done.stderr

    def bare_python(self):
        python = self.path / "python"
        python.write_text(f'#!/bin/sh\nexec {" ".join(BARE)} "$@"\n')
        python.chmod(0o755)
        return python

    def test_all_say_how_they_are_used_without_what_they_need(self):
        for script in sorted(COMPARE.glob("*.py")):
            if script.read_bytes().startswith(b"#!"):
                with self.subTest(script=script.name):
                    self.assertTrue(self.run_script(*BARE, script, "--help")[0].startswith("usage: "))

    def test_what_is_missing_is_told_in_one_line(self):
        for script, arguments in NEEDY.items():
            with self.subTest(script=script):
                out, err = self.run_script(*BARE, COMPARE / script, TOOLS, *arguments, status=2)
                self.assertRegex(err, rf"(^|\n){script}: needs .+, which this Python does not have; to install: .+ -m pip install .+\n$")
                self.assertNotIn("{", out)
        self.assertEqual(list(self.path.iterdir()), [])

    def test_a_folder_without_programs_is_refused(self):
        _, err = self.run_script(COMPARE / "lora_speed.py", self.path, status=2)
        self.assertIn(f"no program of L2L is in {self.path}", err)

    def test_a_table_begins_with_the_machine_and_json_does_not(self):
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        command = [COMPARE / "reversible.py", TOOLS, "text", "--reversible", "none", "--seeds", "1", "--steps", "1"]
        out, err = self.run_script(*command)
        self.assertRegex(out.splitlines()[0], HEADER)
        out, err = self.run_script(*command, "--json")
        self.assertEqual(json.loads(out)["steps"], 1)
        self.assertRegex(err.splitlines()[0], HEADER)

    def test_a_rival_that_does_not_run_is_told_before_anything_is_measured(self):
        python = self.bare_python()
        for rivals, name in (([], "deepspeed"), (["--rivals", "pytorch"], "pytorch")):
            out, err = self.run_script(COMPARE / "eps.py", TOOLS, "--python", python, *rivals, status=2)
            self.assertEqual((out, len(err.splitlines())), ("", 1), err)
            self.assertIn(f"{name} does not run in {python} (--rivals leaves it out): ", err)
        self.assertIn("--rivals: unknown abacus", self.run_script(COMPARE / "eps.py", TOOLS, "--python", python, "--rivals", "abacus", status=2)[1])

    def test_a_python_without_pytorch_makes_no_rivals(self):
        _, err = self.run_script(COMPARE / "eps_rivals.sh", "--torch", self.bare_python(), "rivals", status=2)
        self.assertIn("cannot import torch._dynamo", err)
        self.assertFalse((self.path / "rivals").exists())

    def test_a_gpu_that_does_not_open_ends_the_table(self):
        out, err = self.run_script(SCRIPTS / "gpu_bench.sh", TOOLS, "--tiny", status=1, L2L_CUDA_MODULE="none")
        self.assertIn("device.kind", out.splitlines()[-1])
        self.assertIn("nothing was measured", err)

    def test_a_relayed_row_that_fails_is_a_failure(self):
        table = gpu_table.Table(argparse.Namespace(tools=TOOLS, tiny=True, minutes=1, device="host"))
        odd = dataclasses.replace(table.bert, hidden=63)
        for execution in ("resident", "relay"):
            self.assertIsNone(table.train(execution, odd, execution))
        self.assertEqual((list(table.rows), table.failed), (["resident", "relay"], ["relay"]))

    def test_mkl_takes_every_processor_for_its_vendors(self):
        self.assertEqual(ctypes.CDLL(pytorch_host.build_preload(self.path)).mkl_serv_intel_cpu_true(), 1)


if __name__ == "__main__":
    unittest.main()
