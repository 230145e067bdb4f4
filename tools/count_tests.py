#!/usr/bin/env python3
"""Counts the test cases of the last `meson test` from its log folder: one per GoogleTest case, one per other test.

Names those that failed, then prints "N passed, N failed, N skipped"; exit status 1 when any failed or none ran.
testlog.json has the verdict on each program, testlog.junit.xml its cases: a program that fails although all of its
cases passed (a sanitizer's report at exit) or that left no cases (a crash, a timeout) is one failed case.
"""
import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

MOST_NAMED = 20
Case = collections.namedtuple("Case", "verdict name")


def verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


def described(program, suite, case):
    """The program, the case in it, and where its first failure is and what it says."""
    failure = case.find("failure")
    said = "" if failure is None else " ".join(failure.get("message", "").split())[:300]
    return f"{program}: {suite.get('name').rsplit('.', 1)[-1]}.{case.get('name')} {said}".rstrip()


def gtest_cases(junit, name):
    """Cases of one GoogleTest program, whose suites Meson calls PROJECT.NAME.SUITE."""
    return [Case(verdict(case), described(name, suite, case)) for suite in junit.iter("testsuite")
            if f".{name}." in suite.get("name") for case in suite.iter("testcase")]


def cases_of(program, junit):
    cases = gtest_cases(junit, program["name"])
    outcome = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(program["result"], "failed")
    whole = Case(outcome, f"{program['name']}: {program['result']}")
    if not cases:
        return [whole]
    if outcome == "failed" and all(case.verdict != "failed" for case in cases):
        return cases + [whole]
    return cases


def read_cases(folder):
    programs = [json.loads(line) for line in (folder / "testlog.json").read_text().splitlines()]
    junit = ElementTree.parse(folder / "testlog.junit.xml").getroot()
    return [case for program in programs for case in cases_of(program, junit)]


def main(folder):
    try:
        cases = read_cases(pathlib.Path(folder))
    except (OSError, ElementTree.ParseError, ValueError) as error:
        print(f"no results in {folder}: {error}", file=sys.stderr)
        cases = []
    passed, failed, skipped = ([case.name for case in cases if case.verdict == kind]
                               for kind in ("passed", "failed", "skipped"))
    for name in failed[:MOST_NAMED]:
        print(f"failed: {name}")
    if len(failed) > MOST_NAMED:
        print(f"failed: {len(failed) - MOST_NAMED} more")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
