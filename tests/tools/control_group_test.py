"""The memory contract in a real control group: a limit of what l2l-train says that it needs suffices, to the end and through
its saves; one MiB less is refused before step 1, with need, limit and shortfall, also where a group above has the limit.

    control_group_test.py FOLDER_OF_THE_TOOLS [--configs N]

Skips (77) where no group with a limit on memory can be made: it needs root, and version 1 or 2 with its controller for memory.
"""
import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CONFIG = """
[data]
train = ["text"]
[checkpoint]
directory = "saved"
every = 2
[recompute]
policy = "full"  # "auto" would fit into less
[run]
steps = 3
"""
MIB = 1 << 20
SLACK = 512 << 10  # the process's own part is measured at its start, and differs that much from one start to the next
CHOICES = {"model.hidden": [64, 256, 512], "model.layers": [2, 8], "batch.micro_batches": [1, 4], "precision.compute": ["fp32", "bf16"],
           "optimizer.moments": ["fp32", "bf16"]}


def memory_groups():
    """This process's own groups whose children may have limits on memory, and the name of the limit's file there."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        elif controllers == "":
            yield pathlib.Path("/sys/fs/cgroup" + path), "memory.max"


class Group:
    """A group below this process's own, with a group of its own below, in which commands run."""

    def __init__(self, folder, limit_file):
        self.folder, self.limit_file = folder, limit_file

    @staticmethod
    def make():
        """None where that is not possible."""
        for parent, limit in memory_groups():
            folder = parent / f"l2l-test-{os.getpid()}"
            try:
                (folder / "inner").mkdir(parents=True)
                if (folder / limit).exists():
                    group = Group(folder, folder / limit)
                    group.set_limit(1 << 40)
                    return group
            except OSError:
                pass
            remove(folder)
        return None

    def set_limit(self, value):
        self.limit_file.write_text(str(value))

    def run(self, command, **options):
        enter = f'echo $$ >{self.folder}/inner/cgroup.procs && exec "$@"'
        return subprocess.run(["bash", "-c", enter, "bash", *command], capture_output=True, text=True, timeout=120, **options)


def remove(folder):
    for path in (folder / "inner", folder):
        try:
            path.rmdir()
        except OSError:
            pass


def judge(group, tools, settings):
    """What is wrong with a config; None if nothing is."""
    command = [str(tools / "l2l-train"), "run.toml", *itertools.chain(*(("--set", f"{key}={value}") for key, value in settings))]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (folder / "run.toml").write_text(CONFIG)
        group.set_limit(8 << 30)
        said = group.run([*command, "--dry-run"], cwd=folder)
        need = int(re.search(r"host \(peak of the process\).*\((\d+) B\)", said.stdout + said.stderr).group(1))
        group.set_limit((need - MIB) // 4096 * 4096)
        less = group.run(command, cwd=folder)
        if less.returncode != 2 or "short by" not in less.stderr or str(group.limit_file) not in less.stderr:
            return f"1 MiB less than {need}: status {less.returncode}: {less.stderr[-400:]}"
        if (folder / "saved").exists() and any((folder / "saved").glob("step-*")):
            return "refused, but something was saved"
        group.set_limit((need + SLACK) // 4096 * 4096)
        enough = group.run([*command, "--quiet"], cwd=folder)
        if enough.returncode != 0:
            return f"a limit of {need} + {SLACK}: status {enough.returncode}: {enough.stderr[-400:]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--configs", type=int, default=4)
    arguments = parser.parse_args()
    group = Group.make()
    if group is None:
        print("no control group with a limit on memory can be made here")
        return 77
    try:
        configs = [list(zip(CHOICES, values)) for values in itertools.product(*CHOICES.values())]
        configs = configs[::max(1, len(configs) // arguments.configs)][:arguments.configs]
        faults = [f"{settings}: {fault}" for settings in configs if (fault := judge(group, arguments.tools, settings))]
    finally:
        remove(group.folder)
    print(f"{len(configs)} configs below {group.limit_file.parent}, {len(faults)} faults")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
