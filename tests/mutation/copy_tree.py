"""The copy of the tree that holds the mutants, and its build."""
import os
import re
import subprocess
from pathlib import Path

from schema import HEADER, header, render

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ['runtime', 'eps', 'transfer', 'optimizers', 'models', 'compiler']
_ERROR = re.compile(r'^(\S+?):(\d+):(?:\d+:)? (?:fatal )?error:|(?:from|at) (\S+?):(\d+)[,:]', re.MULTILINE)


def listed():
    names = subprocess.run(['git', '-C', ROOT, 'ls-files', '-co', '--exclude-standard'], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split('\n')
    return [name for name in names if name and (ROOT / name).is_file()]


def product_files(folders):
    return {name: (ROOT / name).read_text() for name in listed()
            if name.split('/')[0] in folders and name.endswith(('.cpp', '.h'))}


def _put(path, data, mode=None):
    """Leaves a file that is so already as it is: ninja goes by times."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if mode is not None:
        path.chmod(mode)


class Copy:
    def __init__(self, folder):
        self.tree = Path(folder) / 'tree'
        self.build = self.tree / 'build-test'  # as deep below the tree as other builds: ccache compares paths

    def write(self, drawn, dropped):
        """The tree with the drawn mutants, but those whose numbers are in `dropped`."""
        by_file = {}
        for mutant in drawn:
            if mutant.number in dropped:
                continue
            by_file.setdefault(mutant.file, []).append(mutant)
        for name in listed():
            data = (ROOT / name).read_bytes()
            if name in by_file:
                data = render(data.decode(), by_file[name]).encode()
            _put(self.tree / name, data, (ROOT / name).stat().st_mode)
        _put(self.tree / HEADER, header(drawn).encode())

    def configure(self, options):
        if not (self.build / 'build.ninja').exists():
            subprocess.run(['meson', 'setup', self.build, self.tree, *options], check=True, stdout=subprocess.DEVNULL)

    def compile(self, jobs, targets):
        """None, or what the compiler said."""
        command = ['nice', '-n', '15', 'ninja', '-C', self.build, '-k', '0', f'-j{jobs}', *targets]
        done = subprocess.run(command, text=True, errors='replace', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return None if done.returncode == 0 else done.stdout

    def blamed(self, said, mutants):
        """The mutants in whose lines the compiler saw errors; failing that, those of the files that it named."""
        places = set()
        for file, line, other, other_line in _ERROR.findall(said):
            path = Path(os.path.normpath(self.build / (file or other)))
            if path.is_relative_to(self.tree):
                places.add((str(path.relative_to(self.tree)), int(line or other_line)))
        found = [mutant for mutant in mutants if (mutant.file, mutant.line) in places]
        if found:
            return found
        files = {file for file, _ in places}
        return [mutant for mutant in mutants if mutant.file in files]
