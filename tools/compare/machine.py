"""The line above a table that says on what it was measured: processor, load, and the versions of both sides."""
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys

from needs import PACKAGES, fail


def processor(field):
    """What /proc/cpuinfo says of the first processor, such as "model name"; empty where it does not."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def version_of(program):
    """Version, commit and instruction set of one of L2L's programs. Ends this one where it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"{program}: {error.strerror}")
    if done.returncode:
        fail(f"{program} does not run: {done.stderr.strip()}")
    version, instruction_set = done.stdout.splitlines()[:2]
    return f"{version}, {instruction_set.split()[2]}"


def describe(program, *packages):
    """`packages`: those of this Python, by what they are imported as; others as NAME VERSION."""
    cores = len(os.sched_getaffinity(0))
    versions = [package if " " in package else f"{package} {importlib.metadata.version(PACKAGES.get(package, package))}"
                for package in packages]
    return (f"{processor('model name') or platform.machine()}, {cores} core{'s' * (cores > 1)}, load {os.getloadavg()[0]:.1f}; "
            f"{version_of(program)}; {', '.join([f'Python {platform.python_version()}', *versions])}")


def print_header(program, *packages, json=False):
    """With `json`, to standard error: standard output is then read by programs."""
    print(describe(program, *packages), file=sys.stderr if json else sys.stdout, flush=True)
