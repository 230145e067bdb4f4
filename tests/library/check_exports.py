#!/usr/bin/env python3
"""The shared library exports the names that L2L_API marks in the public headers, all of them and nothing else, each with
the version of the binary interface.

    check_exports.py NM LIBRARY VERSION HEADER...    prints each offence; exit status 1 when there is any
"""
import pathlib
import re
import subprocess
import sys

MARKED = re.compile(r"L2L_API\b([^;{]*)")
CLASS = re.compile(r"\s*(\w+)\s*(?:final\s*)?(?::|$)")
FUNCTION = re.compile(r"(\w+)\s*\(")
# A function, a member of a class (one level: what lies deeper is not public), or what describes a class.
PUBLIC = re.compile(r"(?:vtable|typeinfo|typeinfo name) for l2l::(\w+)|l2l::(\w+)(?:::(?:~?\w+|operator=))?(?:\[abi:\w+\])?\(.*")


def marked_names(headers):
    """Names of the classes and functions that L2L_API marks in the texts of `headers`."""
    names = set()
    for text in headers:
        lines = [line.split("//")[0] for line in text.splitlines() if not line.startswith("#")]
        for declaration in MARKED.findall("\n".join(lines)):
            found = FUNCTION.search(declaration) or CLASS.match(declaration)
            names.add(found.group(1))
    return names


def offences(symbols, names, version):
    """What is wrong with the exported `symbols`, demangled, when `names` are public. Each ends in "@@VERSION"."""
    seen = set()
    for symbol in symbols:
        symbol, _, its = symbol.partition("@@")
        if its != version:
            yield f"exported with version {its or 'none'} instead of {version}: {symbol}"
        public = PUBLIC.fullmatch(symbol)
        name = public and (public.group(1) or public.group(2))
        if name in names:
            seen.add(name)
        else:
            yield f"exported, but in no public header: {symbol}"
    for name in sorted(names - seen):
        yield f"in a public header, but not exported: {name}"


def exported(nm, library):
    lines = subprocess.run([nm, "--dynamic", "--defined-only", "--demangle", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [line.split(maxsplit=2)[2] for line in lines]  # address, kind, name


def main(nm, library, version, *headers):
    names = marked_names(pathlib.Path(header).read_text() for header in headers)
    symbols = [symbol for symbol in exported(nm, library) if symbol != version]  # the version itself
    found = list(offences(symbols, names, version))
    print("\n".join(found + [f"{len(symbols)} symbols of {len(names)} public names, {len(found)} offences"]))
    return 1 if found or not symbols else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
