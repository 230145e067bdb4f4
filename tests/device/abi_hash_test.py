#!/usr/bin/env python3
"""The hash of the interface's headers (device/cuda/abi_hash.py) follows what they hold, and the build's is up to date. Of
the project's own headers, none includes one that is not among them.

    abi_hash_test.py ABI_HASH_PY BUILT_HEADER HEADER...
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def check_includes(root, headers):
    listed = {pathlib.Path(header).resolve() for header in headers}
    for header in listed:
        for name in re.findall(r'^#include "([^"]+)"', header.read_text(), re.MULTILINE):
            places = [root / name, root / "include" / name]
            assert any(place in listed for place in places), f"{header} includes {name}, which the hash does not cover"


def main():
    script, built, *headers = sys.argv[1:]
    check_includes(pathlib.Path(script).resolve().parents[2], headers)
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for i, header in enumerate(headers):
            copies.append(pathlib.Path(folder) / f"{i}.h")
            copies[-1].write_bytes(pathlib.Path(header).read_bytes())

        def written():
            output = pathlib.Path(folder) / "out.h"
            subprocess.run([sys.executable, script, output, *copies], check=True)
            return output.read_text()

        first = written()
        assert first == pathlib.Path(built).read_text(), f"{built} is not of these headers"
        for copy in copies:
            text = copy.read_bytes()
            copy.write_bytes(text + b"// edited\n")
            assert written() != first, f"an edit of header {copy.name} does not show"
            copy.write_bytes(text)
        assert written() == first


if __name__ == "__main__":
    main()
