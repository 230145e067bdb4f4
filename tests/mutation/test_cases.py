"""The tests of a build as commands, case by case for GoogleTest's programs, and which mutants each one reaches."""
import fnmatch
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Case:
    program: str  # its name in Meson
    suite: str
    name: str  # of GoogleTest; empty: the whole program
    seconds: float = 0
    reached: list = field(default_factory=list)

    def as_json(self):
        return asdict(self)


def run_limited(command, environment, folder, limit):
    """Exit status, or None past `limit` seconds; ends with all processes that it started."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class Programs:
    """What Meson knows of the tests of a build folder. Those whose suite or name is in `without`, which may
    have * and ?, are left out."""

    def __init__(self, build, without):
        self.build = Path(build)
        said = subprocess.run(['meson', 'introspect', '--tests', self.build], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        self.tests = {}
        commands = set()
        for test in json.loads(said):
            suite = test['suite'][0].split(':')[-1]
            command = tuple(test['cmd'])
            left_out = len(test['suite']) > 1 or any(
                fnmatch.fnmatch(test['name'], pattern) or suite == pattern for pattern in without)
            if left_out or command in commands:
                continue
            commands.add(command)  # shards of one program are one
            environment = {name: value for name, value in test['env'].items() if not name.startswith('GTEST_')}
            environment['L2L_CUDA_MODULE'] = 'none'
            environment['L2L_CALIBRATION'] = str(self.build / 'tests/calibration.json')
            self.tests[test['name']] = dict(test, suite=suite, env=environment, gtest=test['protocol'] == 'gtest')

    def targets(self):
        """Programs to build, as ninja names them."""
        said = subprocess.run(['meson', 'introspect', '--targets', self.build], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        built = [target['filename'][0] for target in json.loads(said) if target['type'] == 'executable']
        parts = {part for test in self.tests.values() for part in test['cmd']}
        tools = str(self.build / 'tools')
        wanted = [path for path in built if path in parts or (tools in parts and path.startswith(tools + '/'))]
        return [str(Path(path).relative_to(self.build)) for path in wanted]

    def cases(self):
        for name, test in self.tests.items():
            if not test['gtest']:
                yield Case(name, test['suite'], '')
                continue
            said = subprocess.run([*test['cmd'], '--gtest_list_tests'], text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, **test['env']}).stdout
            group = ''
            for line in said.splitlines():
                if line.startswith('Running main'):
                    continue
                if not line.startswith(' '):
                    group = line.split('#')[0].strip()
                else:
                    case = line.split('#')[0].strip()
                    if 'DISABLED_' not in group + case:
                        yield Case(name, test['suite'], group + case)

    def run(self, program, names, mutant, limit, reached=None):
        """Exit status, or None past the limit. mutant: its number; 0 for none."""
        test = self.tests[program]
        environment = dict(test['env'], L2L_MUTANT=str(mutant), PYTHONDONTWRITEBYTECODE='1')
        if reached is not None:
            environment['L2L_MUTANTS_REACHED'] = str(reached)
        if names:
            environment['GTEST_FILTER'] = ':'.join(names)
            environment['GTEST_FAIL_FAST'] = '1'
        return run_limited(['nice', '-n', '15', *test['cmd']], environment, self.build, limit)

    def observe(self, case, folder, limit):
        """Runs a case without a mutant and fills in what it takes and reaches. Returns whether it passed."""
        reached = Path(folder) / 'reached.txt'
        reached.unlink(missing_ok=True)
        started = time.monotonic()
        status = self.run(case.program, [case.name] if case.name else [], 0, limit, reached)
        case.seconds = round(time.monotonic() - started, 3)
        case.reached = sorted({int(line) for line in reached.read_text().split()}) if reached.exists() else []
        return status == 0
