"""tools/count_tests.py on the logs of made-up runs: what Meson's two logs leave out on their own is counted."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import count_tests  # noqa: E402

CASE = {"passed": "<testcase name='a'/>",
        "failed": "<testcase name='a'><failure message='x.cpp:7&#xA;Expected: 1'/></testcase>",
        "skipped": "<testcase name='a'><skipped/></testcase>", "disabled": "<testcase name='a' status='notrun'/>"}


def run(programs, suites=()):
    """`programs`: (name, Meson's verdict); `suites`: (name of a GoogleTest program, its cases)."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [json.dumps({"name": f"l2l:part / {name}", "result": result}) for name, result in programs]
        (folder / "testlog.json").write_text("\n".join(lines))
        xml = "".join(f"<testsuite name='l2l.l2l:part / {name}.Suite'>{''.join(CASE[case] for case in cases)}</testsuite>"
                      for name, cases in suites)
        (folder / "testlog.junit.xml").write_text(f"<testsuites>{xml}</testsuites>")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            status = count_tests.main(folder)
        return output.getvalue(), status


class CountTests(unittest.TestCase):
    def test_counts_cases_and_plain_programs(self):
        self.assertEqual(run([("a", "OK"), ("b", "OK")], [("a", ["passed", "passed", "skipped", "disabled"])]),
                         ("3 passed, 0 failed, 2 skipped\n", 0))

    def test_a_failed_case_fails(self):
        self.assertEqual(run([("a", "FAIL")], [("a", ["passed", "failed"])]),
                         ("failed: l2l:part / a: Suite.a x.cpp:7 Expected: 1\n1 passed, 1 failed, 0 skipped\n", 1))

    def test_a_program_that_fails_after_its_cases_passed_is_a_failure(self):
        self.assertEqual(run([("a", "FAIL")], [("a", ["passed", "passed"])]),
                         ("failed: l2l:part / a: FAIL\n2 passed, 1 failed, 0 skipped\n", 1))

    def test_a_crash_or_timeout_without_cases_is_a_failure(self):
        self.assertEqual(run([("a", "TIMEOUT"), ("b", "FAIL"), ("c", "OK")]),
                         ("failed: l2l:part / a: TIMEOUT\n"
                          "failed: l2l:part / b: FAIL\n1 passed, 2 failed, 0 skipped\n", 1))

    def test_many_failures_are_named_in_part(self):
        output, _ = run([("a", "FAIL")], [("a", ["failed"] * 25)])
        self.assertEqual(output.splitlines()[-3:], ["failed: l2l:part / a: Suite.a x.cpp:7 Expected: 1",
                                                    "failed: 5 more", "0 passed, 25 failed, 0 skipped"])

    def test_names_that_begin_alike_are_told_apart(self):
        self.assertEqual(run([("ops", "OK"), ("ops_speed", "OK")], [("ops_speed", ["passed", "passed"])]),
                         ("3 passed, 0 failed, 0 skipped\n", 0))

    def test_nothing_run_is_not_a_success(self):
        self.assertEqual(run([]), ("0 passed, 0 failed, 0 skipped\n", 1))
        self.assertEqual(run([("a", "SKIP")]), ("0 passed, 0 failed, 1 skipped\n", 1))


if __name__ == "__main__":
    unittest.main()
