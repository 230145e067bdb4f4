#!/usr/bin/env python3
"""The hash by which l2l knows a chat template (runtime/data/chat_templates.cpp): XXH64 of the text without comments,
white space, line ends written as \\n, and trim markers, which do not change what it makes in the templates that are built.

    chat_template_hash.py FILE.jinja...          (needs the package xxhash)
"""
import argparse
import pathlib
import re

from needs import needs

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    FILES = parser.parse_args().files
    needs("xxhash")

import xxhash  # noqa: E402


def fingerprint(text):
    text = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL).replace("\\n", "")
    text = re.sub(r"(?<=[%{])-|-(?=[%}])", "", text)
    return xxhash.xxh64(re.sub(r"[ \n\r\t]", "", text).encode()).intdigest()


if __name__ == "__main__":
    for file in FILES:
        print(f"0x{fingerprint(file.read_text()):016x}  {file}")
