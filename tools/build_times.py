#!/usr/bin/env python3
"""Seconds that a build spent by folder of the sources, and on its slowest outputs.

    build_times.py BUILD_FOLDER [--depth N] [--slowest N]

Reads Ninja's log, which has when each output was begun and done: processor seconds as far as nothing waited for a core
(at most as many jobs as cores, on an idle machine), and next to nothing for what came from ccache.
"""
import argparse
import collections
import json
import os
import pathlib


def seconds_by_output(log):
    """The last run of each output; several outputs of one command share its time."""
    runs = {}
    for line in log.read_text().splitlines():
        if not line.startswith("#"):
            begin, end, _, output, command = line.split("\t")
            runs[output] = (int(begin), int(end), command)
    outputs = {run: output for output, run in runs.items()}
    return {output: (end - begin) / 1000 for (begin, end, _), output in outputs.items()}


def folders_of_objects(build):
    """By output, the folder of its source below the root of the sources or, of a generated one, below the build folder."""
    root = pathlib.Path(json.loads((build / "meson-info/intro-buildsystem_files.json").read_text())[0]).parent
    folders = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        folder = pathlib.Path(command["directory"], command["file"]).resolve().parent
        folders[command["output"]] = os.path.relpath(folder, build if folder.is_relative_to(build) else root)
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--depth", type=int, default=2, help="folders below one this deep count as part of it")
    parser.add_argument("--slowest", type=int, default=20)
    arguments = parser.parse_args()
    outputs = seconds_by_output(arguments.build / ".ninja_log")
    sources = folders_of_objects(arguments.build)
    folders = collections.defaultdict(list)
    for output, seconds in outputs.items():  # libraries, programs and CUDA objects lie in the folder of their target
        folder = sources.get(output, os.path.dirname(output))
        folders["/".join(folder.split("/")[:arguments.depth])].append(seconds)
    print(f"{'seconds':>9} {'outputs':>8}  folder")
    for folder, seconds in sorted(folders.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(seconds):9.1f} {len(seconds):8}  {folder}")
    print(f"{sum(outputs.values()):9.1f} {len(outputs):8}  all")
    print(f"\n{'seconds':>9}  slowest")
    for output, seconds in sorted(outputs.items(), key=lambda item: -item[1])[:arguments.slowest]:
        print(f"{seconds:9.1f}  {output}")


if __name__ == "__main__":
    main()
