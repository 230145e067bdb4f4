#!/usr/bin/env python3
"""What documents and comments refer to is in the tree: paths and links in *.md, paths and documents in sources; and the
scripts of tools/compare, which documents type as they are, can be run.

    check_docs.py ROOT     prints each offence as FILE:LINE: REASON; exit status 1 when there is any

A word with a slash is a path if it ends like a source, or is in backticks and begins with a folder of the tree; capitals
(NAME) and * stand for any text. In sources, // comments count, and a title after a document must begin one of its headings.
"""
import os
import pathlib
import re
import sys

SOURCES = (".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".def", ".build")
SKIPPED = re.compile(r"(\.git|build[^.]*|runs|checkpoints|test_check_docs\.py)$")
WORD = re.compile(r"(?<![\w/.:$~<-])[\w.*-]+(?:/[\w.*-]+)+(?<!\.)/?")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?<![\w/.-])(docs/[\w-]+\.md|[A-Z]+\.md)(?:, ([A-Z][\w -]*\w))?")


def headings(text):
    return re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)


def anchors(text):  # as GitHub makes them
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(text)]


def is_there(path, tree):
    pattern = re.escape(re.sub(r"\b[A-Z]+\b(?!\.md)", "*", path.rstrip("/."))).replace(r"\*", "[^/]*")
    return any(re.fullmatch(pattern + "(/.*)?", file) for file in tree)


def document_offences(name, text, tree):
    text = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    plain = LINK.sub(lambda link: " " * len(link[0]), text)  # offsets stay
    in_code = [range(*span.span()) for span in re.finditer(r"`[^`\n]+`", plain)]
    for word in WORD.finditer(plain):
        inside = is_there(word[0].split("/")[0], tree) and any(word.start() in span for span in in_code)
        if (inside or word[0].endswith(SOURCES)) and not is_there(word[0], tree):
            yield word.start(), f"{word[0]} is not in the tree"
    for link in LINK.finditer(text):
        target, _, anchor = link[1].partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(name), target)) if target else name
        if "://" not in target and not is_there(path, tree):
            yield link.start(), f"{path} is not in the tree"
        elif anchor and "://" not in target and anchor not in anchors(tree.get(path, "")):
            yield link.start(), f"{path} has no heading #{anchor}"


def source_offences(_, text, tree):
    for word in WORD.finditer(re.sub(r"^(?:(?!//).)*", lambda code: " " * len(code[0]), text, flags=re.MULTILINE)):
        if word[0].endswith(SOURCES) and is_there(word[0].split("/")[0], tree) and not is_there(word[0], tree):
            yield word.start(), f"{word[0]} is not in the tree"
    for named in NAMED.finditer(text):
        document, title = named.groups()
        if document not in tree:
            yield named.start(), f"{document} is not in the tree"
        elif title and not any(heading.startswith(title) for heading in headings(tree[document])):
            yield named.start(), f"{document} has no heading {title}"


def offences(tree):
    for name, text in tree.items():
        check = document_offences if name.endswith(".md") else source_offences
        for offset, reason in check(name, text, tree):
            yield f"{name}:{text.count(chr(10), 0, offset) + 1}: {reason}"


def not_executable(root):
    for path in sorted(pathlib.Path(root, "tools/compare").iterdir()):
        if path.is_file() and path.read_bytes().startswith(b"#!") and not os.access(path, os.X_OK):
            yield f"tools/compare/{path.name}:1: begins with #! and is not executable"


def read_tree(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if not SKIPPED.match(one))
        for path in (pathlib.Path(folder, name) for name in sorted(files) if not SKIPPED.match(name)):
            yield path.relative_to(root).as_posix(), path.read_text() if path.name.endswith((".md", *SOURCES)) else ""


if __name__ == "__main__":
    sys.exit("\n".join([*offences(dict(read_tree(sys.argv[1]))), *not_executable(sys.argv[1])]) or 0)
