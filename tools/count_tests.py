#!/usr/bin/env python3
"""Counts the test cases of the last `meson test` from its log folder: one per GoogleTest case, one per other test.

Prints "N passed, N failed, N skipped"; exit status 1 when any failed or none ran. testlog.json has the verdict on each
program, testlog.junit.xml its cases: a program that fails although all of its cases passed (a sanitizer's report at
exit) or that left no cases (a crash, a timeout) is one failed case.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


def gtest_cases(junit, name):
    """Verdicts of one GoogleTest program, whose suites Meson calls PROJECT.NAME.SUITE."""
    return [verdict(case) for suite in junit.iter("testsuite") if f".{name}." in suite.get("name")
            for case in suite.iter("testcase")]


def verdicts(program, junit):
    cases = gtest_cases(junit, program["name"])
    outcome = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(program["result"], "failed")
    if not cases:
        return [outcome]
    if outcome == "failed" and "failed" not in cases:
        return cases + ["failed"]
    return cases


def count(folder):
    programs = [json.loads(line) for line in (folder / "testlog.json").read_text().splitlines()]
    junit = ElementTree.parse(folder / "testlog.junit.xml").getroot()
    return [one for program in programs for one in verdicts(program, junit)]


def main(folder):
    try:
        cases = count(pathlib.Path(folder))
    except (OSError, ElementTree.ParseError, ValueError) as error:
        print(f"no results in {folder}: {error}", file=sys.stderr)
        cases = []
    passed, failed, skipped = (cases.count(kind) for kind in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
