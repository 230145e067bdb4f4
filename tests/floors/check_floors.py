#!/usr/bin/env python3
"""Folders are floors, includes point down: checks every #include of the tree against the tables below.

    check_floors.py ROOT     prints each offence as FILE:LINE: REASON; exit status 1 when there is any
"""
import pathlib
import re
import sys

# Who may include whom, as prefixes of paths from the root. "l2l/" (include/l2l) is the ground that all may include.
FLOORS = {
    "include": [],
    "core": ["core/"],
    "optimizers": ["optimizers/", "core/"],
    "device": ["device/", "core/"],
    "eps": ["eps/", "optimizers/", "core/", "device/device.h"],  # of device only the memory-pinning seam
    "transfer": ["transfer/", "eps/", "device/", "core/"],
    "models": ["models/", "device/graph/", "core/"],
    "runtime": ["runtime/", "models/", "transfer/", "eps/", "device/", "optimizers/", "core/"],
    # l2l-plan --problem and --trace plan what no model is behind
    "tools": ["tools/", "runtime/", "device/planner/", "device/recompute/"],
    "examples": [],
}
# Rooms of a floor, and what of their own floor they may include. A floor with rooms has no others.
ROOMS = {
    "runtime": ["runtime/options/", "runtime/data/", "runtime/planning/"],
    "runtime/options": [],
    "runtime/data": [],
    "runtime/measure": [],
    "runtime/planning": ["runtime/options/", "runtime/data/"],
    "runtime/costs": ["runtime/engine.h", "runtime/measure/", "runtime/options/", "runtime/planning/"],
    "runtime/choice": ["runtime/costs/", "runtime/options/", "runtime/planning/"],
}
# Above all rooms: they make a run, and may use any.
ABOVE = ["runtime/trainer.cpp", "tools/bench/measured_run.h", "tools/bench/measured_run.cpp"]
GROUND = "l2l/"
# One backend each. Other floors reach them through device/open.h, so that nothing above knows which one runs.
BACKENDS = ["device/host/", "device/cuda/"]
SOURCES = {".h", ".cpp", ".cu", ".cuh"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")
CUDA = re.compile(r"cuda|nvcc", re.IGNORECASE)


def may_enter(room, target):
    """Whether a file in `room` may include `target`, of the same floor."""
    if room.split("/")[0] not in ROOMS:
        return True
    own_files = target.rsplit("/", 1)[0] == room and target not in ABOVE
    return room in ROOMS and (own_files or any(target.startswith(allowed) for allowed in ROOMS[room]))


def include_offence(path, quote, target):
    """Why the file at `path` may not include `target`; None when it may."""
    floor = path.split("/")[0]
    inside = target.startswith(GROUND) or target.split("/")[0] in FLOORS
    if not inside:
        return f'"{target}" is not a path from the root' if quote == '"' else None
    if target.startswith(GROUND):
        return None
    if not any(target.startswith(allowed) for allowed in FLOORS[floor]):
        return f"{floor}/ may not include {target}"
    room = path.rsplit("/", 1)[0]
    if path not in ABOVE and target.startswith(floor + "/") and not may_enter(room, target):
        return f"{room}/ may not include {target}"
    if floor != "device" and any(target.startswith(backend) for backend in BACKENDS):
        return f"{target} belongs to one backend; include device/open.h"
    return None


def line_offence(path, line):
    include = INCLUDE.match(line)
    if include:
        return include_offence(path, *include.groups())
    condition = CONDITION.match(line)
    if condition and CUDA.search(condition.group(1)) and not path.startswith("device/cuda/"):
        return "a backend is chosen by which files link, not by the preprocessor"
    return None


def offences(sources):
    """`sources` yields (path from the root, text)."""
    for path, text in sources:
        for number, line in enumerate(text.splitlines(), start=1):
            reason = line_offence(path, line)
            if reason:
                yield f"{path}:{number}: {reason}"


def tree(root):
    for floor in FLOORS:
        for file in sorted((root / floor).rglob("*")):
            if file.suffix in SOURCES:
                yield file.relative_to(root).as_posix(), file.read_text()


def main(root):
    sources = list(tree(pathlib.Path(root)))
    found = list(offences(sources))
    print("\n".join(found + [f"{len(sources)} files, {len(found)} offences"]))
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
