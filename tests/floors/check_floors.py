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
    "base": ["base/"],
    "core": ["core/", "base/"],
    "formats": ["formats/", "core/", "base/"],
    "text": ["text/", "core/", "base/"],
    "compiler": ["compiler/", "core/", "base/"],
    "optimizers": ["optimizers/", "core/"],
    "device": ["device/", "compiler/", "core/"],
    "eps": ["eps/", "collectives/", "optimizers/", "formats/", "core/", "base/"],
    "transfer": ["transfer/", "device/", "eps/", "collectives/", "core/"],
    "collectives": ["collectives/", "core/"],
    "models": ["models/", "compiler/ir/", "compiler/autodiff/", "formats/", "core/", "base/"],
    "runtime": ["runtime/", "models/", "transfer/", "collectives/", "eps/", "device/", "optimizers/", "compiler/", "formats/", "text/", "core/", "base/"],
    # l2l-plan --problem and --trace plan what no model is behind
    "tools": ["tools/", "runtime/", "base/", "core/files.h", "core/hash.h", "formats/", "text/", "compiler/memory/", "compiler/remat/"],
    "examples": [],
}
# The rooms of each floor that has several, and the rooms or files of their own floor that they may include beside
# themselves.
ROOMS = {
    "compiler/ir": [],
    "compiler/autodiff": ["compiler/ir"],
    "compiler/fusion": ["compiler/ir"],
    "compiler/memory": ["compiler/ir", "compiler/memory/search"],
    "compiler/memory/search": ["compiler/memory"],
    "compiler/remat": ["compiler/ir", "compiler/autodiff", "compiler/memory", "compiler/remat/dtr"],
    "compiler/remat/dtr": [],
    "device": ["device/host/host_device.h"],
    "device/host": ["device", "device/kernels"],
    "device/kernels": ["device", "device/kernels/common"],
    "device/kernels/common": ["device"],
    "device/cuda": ["device", "device/kernels/common"],
    "device/cuda/module": ["device", "device/cuda"],
    "device/paced": ["device", "device/host"],
    "device/serial": ["device"],
    "collectives": ["collectives/mpi/module.h"],
    "collectives/mpi": ["collectives"],
    "eps": [],
    "eps/checkpoint": ["eps"],
    "optimizers": ["optimizers/formats", "optimizers/vector"],
    "optimizers/formats": ["optimizers", "optimizers/vector"],
    "optimizers/vector": [],
    "models": [],
    "models/hub": ["models"],
    "runtime": ["runtime/data", "runtime/options", "runtime/plan"],
    "runtime/data": [],
    "runtime/export": ["runtime/hub_companions.h", "runtime/data", "runtime/options"],
    "runtime/options": ["runtime/data"],
    "runtime/plan": ["runtime/data", "runtime/options"],
    "runtime/tuning": ["runtime/engine.h", "runtime/options", "runtime/plan"],
    "tools": ["tools/command_line", "tools/report", "tools/train"],
    "tools/bench": ["tools"],
    "tools/command_line": [],
    "tools/report": ["tools/output_file.h"],
    "tools/train": ["tools", "tools/report"],
}
# Where more is allowed: folders or files, and prefixes of what they may include besides.
BESIDES = {
    "runtime/plan_run.": ["runtime/"],  # composes the stages from options to a plan
    "runtime/trainer": ["runtime/"],  # trainer.cpp and its parts
    "tools/bench/": ["collectives/", "core/", "compiler/", "optimizers/", "device/", "eps/", "transfer/", "models/"],  # measures pieces
}
# Programs as anyone could write them, beside an installed library, and what tools share: on the public headers alone.
OUTSIDE = ["tools/l2l_train.cpp", "tools/l2l_export.cpp", "tools/l2l_report.cpp", "tools/train/", "tools/report/", "tools/command_line/", "tools/command.",
    "tools/measuring_line.", "tools/output_file.", "tools/progress.", "tools/tables.", "tools/terminal."]
# Above the rooms of their floor: only files of BESIDES may include them.
ABOVE = ["runtime/plan_run.h"]
GROUND = "l2l/"
# One backend each. Other floors reach them through device/open.h, so that nothing above knows which one runs.
BACKENDS = ["device/host/", "device/cuda/"]
SOURCES = {".h", ".cpp", ".cu", ".cuh"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")
CUDA = re.compile(r"cuda|nvcc", re.IGNORECASE)


def starts_with_any(path, prefixes):
    return any(path.startswith(prefix) for prefix in prefixes)


def allowed_besides(path, target):
    return any(path.startswith(place) and starts_with_any(target, more) for place, more in BESIDES.items())


def may_enter(room, target):
    """Whether a file in `room` may include `target`, of the same floor."""
    floor = room.split("/")[0]
    if not any(other.split("/")[0] == floor for other in ROOMS):
        return True
    if target in ABOVE:
        return False
    target_room = target.rsplit("/", 1)[0]
    return room in ROOMS and (target_room == room or target_room in ROOMS[room] or target in ROOMS[room])


def include_offence(path, quote, target):
    """Why the file at `path` may not include `target`; None when it may."""
    floor = path.split("/")[0]
    inside = target.startswith(GROUND) or target.split("/")[0] in FLOORS
    if not inside:
        return f'"{target}" is not a path from the root' if quote == '"' else None
    if target.startswith(GROUND):
        return None
    if floor != "device" and starts_with_any(target, BACKENDS):
        return f"{target} belongs to one backend; include device/open.h"
    if starts_with_any(path, OUTSIDE) and not starts_with_any(target, OUTSIDE + ["base/"]):
        return f"{path} uses public headers alone; it may not include {target}"
    if allowed_besides(path, target):
        return None
    if not starts_with_any(target, FLOORS[floor]):
        return f"{floor}/ may not include {target}"
    room = path.rsplit("/", 1)[0]
    if target.startswith(floor + "/") and not may_enter(room, target):
        return f"{room}/ may not include {target}"
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


def forgotten(meson):
    """Sources of programs on the public headers alone, by the text of tools/meson.build, that OUTSIDE does not have."""
    for name in ("tools_lib", "l2l_train", "l2l_export", "l2l_report"):
        statement = re.search(rf"^{name} = (.*?)(?:\n\n|\n\w+ = |\Z)", meson, re.MULTILINE | re.DOTALL)
        sources = re.findall(r"'([\w/]+\.cpp)'", statement.group(1)) if statement else []
        if not sources:
            yield f"tools/meson.build: {name} has no sources that this check knows"
        for source in sources:
            if not starts_with_any("tools/" + source, OUTSIDE):
                yield f"tools/meson.build: {name} has {source}, which OUTSIDE of check_floors.py has not"


def tree(root):
    for floor in FLOORS:
        for file in sorted((root / floor).rglob("*")):
            if file.suffix in SOURCES:
                yield file.relative_to(root).as_posix(), file.read_text()


def main(root):
    sources = list(tree(pathlib.Path(root)))
    found = list(offences(sources)) + list(forgotten((pathlib.Path(root) / "tools/meson.build").read_text()))
    print("\n".join(found + [f"{len(sources)} files, {len(found)} offences"]))
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
