#!/usr/bin/env python3
"""Compares l2l-tokenize with the tokenizers and sentencepiece libraries on mixed text and on short random strings.

    tokenizer_check.py BUILD/tools [--size MB] [--fuzz N] [--speed] [--data FOLDER] [NAME...]

FOLDER (default: $L2L_TEST_DATA) has tokenizers/ and minilm/. Other tokenizers are trained here, one of each kind
(tests/fixtures/make_tokenizer_fixtures.py). Characters that this Python's version of Unicode does not have are left out:
the libraries know different ones of them. Texts for the sentencepiece library are cut at the model's control pieces, such as
"</s>", which it gives back as one id each: the library itself finds them in no text, l2l-tokenize does (docs/tokenizers.md).
Speed is that of whole texts. Of pieces with the same scores its version 0.2 takes others than 0.1: unigram models want the one
that L2L is linked with. Prints a line for each; exit status 1 when ids or texts differ.
"""
import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import unicodedata

from machine import print_header
from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", type=float, default=20)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("L2L_TEST_DATA"))
    ARGUMENTS = parser.parse_intermixed_args()
    needs("sentencepiece", "tokenizers")

import sentencepiece  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent / "../../tests/fixtures"))
import make_tokenizer_fixtures as fixtures  # noqa: E402

SPACES = " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff\u180e"
RANGES = {  # letters of some scripts
    "latin": (0xC0, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x4FF), "armenian": (0x531, 0x587),
    "hebrew": (0x5D0, 0x5EA), "arabic": (0x620, 0x64A), "devanagari": (0x900, 0x97F), "bengali": (0x980, 0x9FE),
    "thai": (0xE01, 0xE3A), "georgian": (0x10D0, 0x10FF), "ethiopic": (0x1200, 0x1248), "jamo": (0x1100, 0x11FF),
    "kana": (0x3041, 0x30FF), "chinese": (0x4E00, 0x9FA5), "hangul": (0xAC00, 0xD7A3), "wide": (0xFF01, 0xFF9F),
    "ligatures": (0xFB00, 0xFB4F), "forms": (0x2100, 0x218B), "symbols": (0x2190, 0x23FF), "marks": (0x300, 0x36F),
    "numbers": (0x2460, 0x249B), "math": (0x1D400, 0x1D7FF), "private": (0xE000, 0xE010), "old": (0x10300, 0x1031F)}
EMOJI = ["👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "1️⃣", "❤️", "😀", "🧑🏻‍🤝‍🧑🏿", "🏳️‍🌈"]
SPECIAL = ["[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "▁", "Ġ",
           "<new>", "MASK", "<mask>", "<0x41>"]
WORDS = """the of and to in is that it was for on are with as his they at be this have from or had by but not what all
were we when your can said there use an each which she do how their if will up other about out many then them these so
don't we'll it's I'M you've THEY'RE Jack's naïve café résumé straße""".split()


def code():
    """Source code: Python's own library."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.py"))[:120])


def letters(draw):
    first, last = draw.choice(list(RANGES.values()))
    return "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 8)))


def known(text):
    return "".join(c for c in text if c != "\0" and unicodedata.category(c) != "Cn")


def short(draw):
    """A few characters of any kind."""
    kinds = [lambda: draw.choice(WORDS), lambda: draw.choice(WORDS), lambda: " ", lambda: draw.choice(SPACES) * draw.randint(1, 3),
             lambda: letters(draw), lambda: str(draw.randint(0, 10**draw.randint(1, 9))), lambda: draw.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~—“”…"),
             lambda: draw.choice(EMOJI), lambda: draw.choice(SPECIAL), lambda: chr(draw.randint(1, 0x2FFF)), lambda: draw.choice("abcdeABCDE"),
             lambda: chr(draw.choice((draw.randint(0x3000, 0xD7FF), draw.randint(0xE000, 0x1FFFF))))]
    return "".join(draw.choice(kinds)() for _ in range(draw.randint(0, 6)))


def document(draw, source):
    """0.5 to 20 KB."""
    size = draw.randint(500, 10000)
    kind = draw.randint(0, 4)
    if kind == 0:
        begin = draw.randint(0, len(source) - size)
        return source[begin:begin + size]
    if kind == 1:
        return "".join(short(draw) for _ in range(size // 8))
    if kind == 2:
        script = draw.choice(list(RANGES.values()))
        word = lambda: "".join(chr(draw.randint(*script)) for _ in range(draw.randint(1, 9)))  # noqa: E731
        return " ".join(word() + draw.choice(["", "", "", ",", ".", "\n", "。"]) for _ in range(size // 6))
    if kind == 3:
        return "".join(draw.choice([" " * draw.randint(1, 90), "\n" * draw.randint(1, 9), str(draw.getrandbits(200)), "\r\n", "a" * 99,
                                    "\x01\x7f\x9f", "x"]) for _ in range(size // 40))
    return " ".join(draw.choice(WORDS) + draw.choice(["", "", ",", ".", "!\n"]) for _ in range(size // 5))


def mixed(megabytes, seed=1):
    """Documents as bytes, some of them with bytes that are not UTF-8, and as the text that these stand for."""
    draw, source, documents, size = random.Random(seed), code(), [], 0
    while size < megabytes * 1e6:
        raw = known(document(draw, source)).encode(errors="replace")
        for _ in range(draw.randint(0, 3) if draw.random() < 0.2 else 0):
            place = draw.randint(0, len(raw))
            raw = raw[:place] + draw.choice([b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f", b"\xc0\xaf"]) + raw[place:]
        documents.append(raw)
        size += len(raw)
    return documents


class Hub:
    """A tokenizer of the tokenizers library."""

    def __init__(self, path):
        self.path = path
        self.tokenizer = Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def encode(self, texts, special=False):
        return [one.ids for one in self.tokenizer.encode_batch(texts, add_special_tokens=special)]

    encode_whole = encode

    def decode(self, ids, special):
        return [self.tokenizer.decode(one, skip_special_tokens=not special) for one in ids]


class Pieces:
    """One of the sentencepiece library."""

    def __init__(self, path):
        self.path = path
        self.processor = sentencepiece.SentencePieceProcessor(str(path))
        self.controls = {self.processor.id_to_piece(i): i for i in range(self.processor.get_piece_size()) if self.processor.is_control(i)}
        longest_first = sorted(map(re.escape, self.controls), key=len, reverse=True)
        self.control = re.compile(f"({'|'.join(longest_first) or '(?!)'})")

    def encode_whole(self, texts):
        return self.processor.encode(texts, num_threads=2)

    def encode(self, texts, special=False):
        parts = [self.control.split(text) for text in texts]  # text, control piece, text, ...
        ids = iter(self.encode_whole([part for text in parts for part in text[::2]]))
        return [[i for k, part in enumerate(text) for i in ([self.controls[part]] if k % 2 else next(ids))] for text in parts]

    def decode(self, ids, special):
        return [self.decode_one(one) for one in ids] if special else None

    def decode_one(self, ids):
        text, part = "", []
        for i in ids:
            if self.processor.is_control(i):
                text, part = text + self.processor.decode(part) + self.processor.id_to_piece(i), []
            else:
                part.append(i)
        return text + self.processor.decode(part)


def ours(tools, path, raw, work, *more):
    file = work / "texts"
    file.write_bytes(b"".join(one + b"\0" for one in raw))
    done = subprocess.run([tools / "l2l-tokenize", path, file, "--null", *more], capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return [list(map(int, line.split())) for line in done.stdout.decode().split("\n")[:-1]]


def decoded(tools, path, ids, special):
    lines = "".join(" ".join(map(str, one)) + "\n" for one in ids).encode()
    done = subprocess.run([tools / "l2l-tokenize", path, "-", "--null", "--decode"] + ["--special"] * special, input=lines, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return done.stdout.decode().split("\0")[:-1]


def first_difference(texts, mine, theirs):
    """The shortest text whose ids differ."""
    wrong = [i for i in range(len(texts)) if mine[i] != theirs[i]]
    if not wrong:
        return None
    i = min(wrong, key=lambda one: len(texts[one]))
    place = next((k for k, (a, b) in enumerate(zip(mine[i], theirs[i])) if a != b), min(len(mine[i]), len(theirs[i])))
    return (f"{len(wrong)} of {len(texts)}: text {i}, {texts[i][:60]!r}, from id {place}: "
            f"{mine[i][place:place + 8]} for {theirs[i][place:place + 8]}")


def compare(tools, reference, raw, work):
    texts = [one.decode(errors="replace") for one in raw]
    for special in (False, True):
        mine = ours(tools, reference.path, raw, work, *["--special"] * special)
        theirs = reference.encode(texts, special)
        difference = first_difference(texts, mine, theirs)
        if difference:
            return f"ids: {difference}"
        back = reference.decode(theirs, special)
        if back is None:
            continue
        mine = [list(one) for one in decoded(tools, reference.path, theirs, special)]
        difference = first_difference(texts, mine, [list(one) for one in back])
        if difference:
            return f"decoded: {difference}"
    return None


def fuzz(tools, reference, count, work):
    draw, done = random.Random(2), 0
    while done < count:
        texts = [known(short(draw)).encode(errors="replace").decode() for _ in range(min(100000, count - done))]
        done += len(texts)
        difference = first_difference(texts, ours(tools, reference.path, [one.encode() for one in texts], work), reference.encode(texts))
        if difference:
            return difference
    return None


def speed(tools, reference, raw, work):
    """MB/s of both without loading, medians of three in turn."""
    texts, megabytes = [one.decode(errors="replace") for one in raw], sum(map(len, raw)) / 1e6

    def seconds(call):
        begin = time.monotonic()
        call()
        return time.monotonic() - begin
    (work / "empty").write_bytes(b"")
    (work / "texts").write_bytes(b"".join(one + b"\0" for one in raw))

    def tool(file):
        subprocess.run([tools / "l2l-tokenize", reference.path, work / file, "--null", "--threads", "2", "--output", work / "shard"], check=True)
    mine, theirs = [], []
    for _ in range(3):
        mine.append(seconds(lambda: tool("texts")) - seconds(lambda: tool("empty")))
        theirs.append(seconds(lambda: reference.encode_whole(texts)))
    a, b = (megabytes / statistics.median(times) for times in (mine, theirs))
    return f"{a:.1f} MB/s against {b:.1f}: {a / b:.2f}"


def references(data, work):
    found = {}
    if data:
        found["deepseek"] = Hub(data / "tokenizers/deepseek.json")
        found["minilm"] = Hub(data / "minilm")
        found["mistral"] = Pieces(data / "tokenizers/mistral_v3.model")
    for name, tokenizer in fixtures.make().items():
        path = work / f"{name}.json"
        tokenizer.save(str(path))
        found[name] = Hub(path)
    for kind in ("unigram", "bpe", "char", "word"):
        text = work / "corpus.txt"
        text.write_text("\n".join(one.replace("\n", " ") for one in fixtures.CORPUS if one.strip()) * 3)
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(work / kind), vocab_size=600 if kind in ("unigram", "bpe") else 120,
            model_type=kind, byte_fallback=kind == "bpe", hard_vocab_limit=False, minloglevel=2, character_coverage=0.99)
        found[f"sentencepiece {kind}"] = Pieces(work / f"{kind}.model")
    return found


def main(arguments):
    if arguments.speed:
        print_header(arguments.tools / "l2l-tokenize", "sentencepiece", "tokenizers")
    os.environ["RAYON_NUM_THREADS"] = "2"
    raw, bad = mixed(arguments.size), 0
    with tempfile.TemporaryDirectory() as place:
        work, tools = pathlib.Path(place), arguments.tools
        for name, reference in references(arguments.data, work).items():
            if arguments.names and name not in arguments.names:
                continue
            try:
                wrong = compare(tools, reference, raw, work)
                if arguments.fuzz and not wrong:
                    wrong = fuzz(tools, reference, arguments.fuzz, work)
                    wrong = wrong and f"random strings: {wrong}"
                more = f"  {speed(tools, reference, raw, work)}" if arguments.speed else ""
            except Exception as error:  # the others are still of interest
                wrong, more = f"{type(error).__name__}: {str(error)[:300]}", ""
            bad += wrong is not None
            print(f"{'BAD' if wrong else 'ok '} {name:40}{more}{'  ' + wrong if wrong else ''}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(ARGUMENTS)
