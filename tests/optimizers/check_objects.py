#!/usr/bin/env python3
"""The objects of the kernels hold no instructions and no shared functions of a wider instruction set.

    check_objects.py SET=LIBRARY...     exit status 1 and a line for each offence; 77 where objdump or nm is missing

A function that the linker may take from any of several objects (a weak symbol) must name the set's namespace: else one
set's code could run on a processor that lacks it.
"""
import re
import shutil
import subprocess
import sys

WIDER = {"portable": r"%[yz]mm", "avx2": r"%zmm"}


def main(arguments):
    if not shutil.which("objdump") or not shutil.which("nm"):
        return 77
    offences = []
    for name, library in (argument.split("=", 1) for argument in arguments):
        text = subprocess.run(["objdump", "-d", library], check=True, capture_output=True, text=True).stdout
        if not text.count("ret"):
            offences.append(f"{library}: no code was found")
        if name in WIDER and re.search(WIDER[name], text):
            offences.append(f"{library}: has instructions that the set {name} lacks")
        symbols = subprocess.run(["nm", "-C", library], check=True, capture_output=True, text=True).stdout
        for line in symbols.splitlines():
            weak = re.match(r"[0-9a-f]+ [WVu] (.*)", line)
            if weak and f"::{name}::" not in weak.group(1) and not weak.group(1).startswith("DW.ref"):
                offences.append(f"{library}: {weak.group(1)} may be taken from another set's object")
    print("\n".join(offences))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
