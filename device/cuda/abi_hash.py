#!/usr/bin/env python3
"""Writes a header that defines L2L_ABI_HASH, a hash of what the given files hold (their places do not count).

    abi_hash.py OUTPUT FILE...
"""
import hashlib
import pathlib
import sys


def hash_of(texts):
    """16 hexadecimal digits; other for other texts, another order, or other borders between them."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()[:16]


def main():
    output, *files = sys.argv[1:]
    texts = [pathlib.Path(file).read_bytes() for file in files]
    pathlib.Path(output).write_text(f'#pragma once\n#define L2L_ABI_HASH "{hash_of(texts)}"\n')


if __name__ == "__main__":
    main()
