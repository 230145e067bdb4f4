#!/usr/bin/env python3
"""Tests of the tests: plants defects in a copy of the tree, one at a time, and sees which test notices.

    mutate.py FOLDER make [--count N] [--seed S] [--in ROOM ...]   draw mutants, build them all at once
    mutate.py FOLDER observe                                       run every test case once: what reaches which mutant
    mutate.py FOLDER run [--minutes M]                             run mutants; goes on where it stopped
    mutate.py FOLDER table                                         what was caught, by folder
    mutate.py FOLDER survivors                                     what was not

FOLDER has the copy (`tree/`), `mutants.json`, `cases.jsonl` and `log.jsonl`, to which each mutant adds a line:
"does not compile", "caught" (by which program and cases), "survived" (with the number of cases that it met).
A mutant meets only the cases that reach it: those of its own room first, then laws, then the others, the short ones
before the long ones, up to the first failure. A case that takes ten times its time, and 20 s, has failed.
"""
import argparse
import hashlib
import json
import time
from collections import Counter
from pathlib import Path

from copy_tree import FOLDERS, Copy, product_files
from schema import Mutant, sample
from test_cases import Case, Programs

OPTIONS = ['-Dbuildtype=debugoptimized', '-Ddebug=false', '-Dcpp_args=-g1', '-Dfault_points=enabled', '-Dtests=true',
           '-Dcuda=disabled']
# What cannot notice a mutant, what judges by measured times, and what has mutants of its own.
WITHOUT = ['mutant_*', 'floors', 'fuzz', 'emulation', 'conformance', 'formats', 'core', 'law_overlap', 'prediction', 'update_speed',
           'eps_denormals', 'count_tests', 'kernel_objects', 'kernel_objects_negative_control', 'library', 'examples']
TOGETHER_S = 4.0  # cases of one program that run in one process


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path, value):
    with path.open('a') as file:
        file.write(json.dumps(value) + '\n')


class Experiment:
    def __init__(self, arguments):
        self.folder = arguments.folder.resolve()
        self.without = WITHOUT + arguments.without
        self.copy = Copy(self.folder)
        self.log = self.folder / 'log.jsonl'
        self.observed = self.folder / 'cases.jsonl'
        self.list = self.folder / 'mutants.json'

    def mutants(self):
        return [Mutant(**mutant) for mutant in json.loads(self.list.read_text())['mutants']]

    def outcomes(self):
        return {line['mutant']['number']: line for line in lines(self.log)}

    def make(self, count, seed, rooms, jobs):
        self.folder.mkdir(parents=True, exist_ok=True)
        files = product_files(FOLDERS)
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        if not self.list.exists():
            drawn = sample({name: text for name, text in files.items() if name.split('/')[0] in rooms}, count, seed)
            self.list.write_text(json.dumps({'files': digests, 'mutants': [m.as_json() for m in drawn]}, indent=0))
        changed = {name for name, digest in json.loads(self.list.read_text())['files'].items()
                   if digests.get(name) != digest} & {mutant.file for mutant in self.mutants()}
        if changed:
            raise SystemExit(f'{", ".join(sorted(changed))}: changed since the mutants were drawn; take a new folder')
        dropped = {number for number, line in self.outcomes().items() if line['outcome'] == 'does not compile'}
        while True:
            left = [mutant for mutant in self.mutants() if mutant.number not in dropped]
            self.copy.write(self.mutants(), dropped)
            self.copy.configure(OPTIONS)
            said = self.copy.compile(jobs, Programs(self.copy.build, self.without).targets())
            if said is None:
                break
            blamed = self.copy.blamed(said, left)
            if not blamed:
                raise SystemExit(said[-4000:])
            for mutant in blamed:
                dropped.add(mutant.number)
                append(self.log, {'outcome': 'does not compile', 'mutant': mutant.as_json()})
            print(f'{len(blamed)} mutants do not compile', flush=True)
        print(f'{len(left)} mutants built', flush=True)

    def observe(self, limit):
        programs = Programs(self.copy.build, self.without)
        done = {(line['program'], line['name']) for line in lines(self.observed) if line['passed']}
        order = ['transfer', 'models', 'optimizers', 'eps', 'device', 'runtime', 'laws', 'compiler']  # the quick first
        for case in sorted(programs.cases(), key=lambda case: (not case.name, case.suite not in order,
                                                               case.suite in order and order.index(case.suite))):
            if (case.program, case.name) in done:
                continue
            passed = programs.observe(case, self.folder, limit)
            append(self.observed, dict(case.as_json(), passed=passed))
            if not passed:
                print(f'{case.program} {case.name}: fails without a mutant, or takes too long, and is left out', flush=True)

    def run(self, minutes, quick):
        programs = Programs(self.copy.build, self.without)
        observed = lines(self.observed)
        reaching = {}
        for index, line in enumerate(observed):
            if line.pop('passed') and (line['name'] or not quick):
                for number in line['reached']:
                    reaching.setdefault(number, {})[(line['program'], line['name'])] = (index, Case(**line))
        outcomes, end = self.outcomes(), time.monotonic() + 60 * minutes
        for mutant in self.mutants():
            if time.monotonic() > end:
                break
            known = outcomes.get(mutant.number)
            if known and known['outcome'] != 'survived':
                continue
            cases = [case for index, case in reaching.get(mutant.number, {}).values()
                     if not known or index >= known['observed'] or not (case.name or known['whole'])]
            if known and not cases:
                continue
            outcome = judge(programs, mutant, cases)
            if outcome['outcome'] == 'survived':
                outcome['met'] += known['met'] if known else 0
            append(self.log, dict(outcome, whole=not quick, observed=len(observed), mutant=mutant.as_json()))
            print(mutant.number, mutant.file, mutant.line, mutant.operator, outcome['outcome'], outcome.get('by', ''),
                  flush=True)


def together(cases, room):
    """Groups of cases to run in one process, in the order in which they are likely to notice cheaply."""
    def tier(case):
        return (0 if case.suite == room else 1 if case.suite == 'laws' else 2, not case.name)
    groups = []
    for case in sorted(cases, key=lambda case: (tier(case), case.program, case.seconds)):
        last = groups[-1] if groups else None
        if last and case.name and last[0].program == case.program and (
                sum(other.seconds for other in last) + case.seconds <= TOGETHER_S):
            last.append(case)
        else:
            groups.append([case])
    return sorted(groups, key=lambda group: (tier(group[0]), group[-1].seconds))


def judge(programs, mutant, cases):
    started = time.monotonic()
    for group in together(cases, mutant.file.split('/')[0]):
        limit = 20 + 10 * sum(case.seconds for case in group)
        status = programs.run(group[0].program, [case.name for case in group if case.name], mutant.number, limit)
        if status != 0:
            return {'outcome': 'caught', 'by': group[0].program, 'cases': [case.name for case in group][:3],
                    'status': status, 'seconds': round(time.monotonic() - started, 1)}
    return {'outcome': 'survived', 'met': len(cases), 'seconds': round(time.monotonic() - started, 1)}


def table(outcomes):
    counts = {}
    for line in outcomes.values():
        counts.setdefault(line['mutant']['file'].split('/')[0], Counter())[line['outcome']] += 1
    counts['all'] = sum(counts.values(), Counter())
    columns = ['caught', 'survived', 'does not compile']
    print('| folder | made | ' + ' | '.join(columns) + ' |')
    print('|---|---|' + '---|' * len(columns))
    for folder, row in counts.items():
        print(f'| {folder} | {sum(row.values())} | ' + ' | '.join(str(row[column]) for column in columns) + ' |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('command', choices=['make', 'observe', 'run', 'table', 'survivors'])
    parser.add_argument('--count', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--in', dest='rooms', nargs='*', default=FOLDERS)
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--minutes', type=float, default=1e9)
    parser.add_argument('--limit', type=float, default=300, help='observe: seconds that a case may take')
    parser.add_argument('--quick', action='store_true', help='without the tests that are no GoogleTest programs')
    parser.add_argument('--without', nargs='*', default=[], help='suites or programs to leave out')
    arguments = parser.parse_args()
    experiment = Experiment(arguments)
    if arguments.command == 'make':
        experiment.make(arguments.count, arguments.seed, arguments.rooms, arguments.jobs)
    elif arguments.command == 'observe':
        experiment.observe(arguments.limit)
    elif arguments.command == 'run':
        experiment.run(arguments.minutes, arguments.quick)
    elif arguments.command == 'table':
        table(experiment.outcomes())
    else:
        for line in experiment.outcomes().values():
            if line['outcome'] == 'survived':
                mutant = line['mutant']
                print(f'{mutant["number"]} {mutant["file"]}:{mutant["line"]} {mutant["operator"]}, met '
                      f'{line["met"]} cases\n  - {mutant["before"]}\n  + {mutant["after"]}')


if __name__ == '__main__':
    main()
