#!/usr/bin/env python3
"""Files that are nearly safetensors, read by L2L and by the reference implementation (the safetensors package, which it needs).

    safetensors_differential.py VERDICTS [--inputs N] [--seed S] [--jobs J] [--corpus FOLDER ...]

VERDICTS is the program built from safetensors_verdicts.cpp. Nothing may be accepted that the reference refuses; what both accept must
be the same tensors; and what L2L alone refuses must be refused for a reason in STRICTER, which docs/formats.md explains. Files are made
from seeds (and from a corpus, such as tests/fuzz/run leaves) by changes of bytes, of JSON text with the header's length kept
true, and of fields. Prints counts as JSON; exit status 1 and the file in hexadecimal at the first disagreement, 77 without the package.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import time

try:
    import safetensors
except ImportError:
    safetensors = None

BATCH = 1000
STRICTER = {  # what L2L says, and why it refuses what the reference reads
    "a name that stands twice": r"stands twice",
    "white space before the header": r"does not begin with '\{'",
    "a field that is not of the format": r"as the value of|a string where none belongs|a number where none belongs|an object where none"
                                         r"|true or false where none|an array where none|null where a value|a negative number"
                                         r"|a number that is not a whole one",
    "rank above 8": r"rank above 8",
    "a dimension beyond 2^63": r"is too large",
    "a type whose elements are no whole bytes": r"unknown dtype \"(F4|F6_E2M3|F6_E3M2)\"",
}
# Pieces that JSON texts and headers are changed with.
PIECES = ['"', "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "\0", "\\", "\\u0000", "\\ud800", "\\udc00\\ud800", "\\n", "\\x", "é", "\x7f", "\x01",
          "0", "-", "-0", "-1", "1.0", "1e1", "01", "+1", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615",
          "18446744073709551616", "1" * 30, "null", "true", "NaN", "{}", "[]", "//", "/**/", '"a"', '"b"', '"__metadata__"', '"dtype"', '"shape"',
          '"data_offsets"', '"F32"', '"F64"', '"BF16"', '"I8"', '"F4"', '"C64"', '"F8_E8M0"', '"F8_E4M3FNUZ"', '"f32"', '"x":1,', '"x":[{}],', "[[[[[[",
          '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}', '"__metadata__":{"a":"b"},', "\ufeff", "[1,1,1,1,1,1,1,1,1]", "[0]", "[]", "[0,0]"]
RAW = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1"]
TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
         "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}


def file_of(header, data):
    return struct.pack("<Q", len(header)) + header + data


def split(file):
    """Header and data, as far as there are any."""
    length = struct.unpack("<Q", file[:8])[0] if len(file) >= 8 else 0
    return file[8:8 + length], file[8 + length:]


class Generator:
    def __init__(self, seed, corpus):
        self.random, self.corpus = random.Random(seed), corpus

    def whole(self):
        """A valid file of up to four tensors, whose fields, order and offsets are then changed now and then."""
        draw, entries, end = self.random, [], 0
        for _ in range(draw.randrange(5)):
            dtype = draw.choice(list(TYPES))
            shape = [draw.choice([0, 1, 1, 2, 3]) for _ in range(draw.randrange(5))]
            size = TYPES[dtype]
            for dimension in shape:
                size *= dimension
            entries.append([draw.choice(["a", "b", "c.weight", "é", "", "\\u0061", "d"]) + draw.choice(["", "1", "2"]), dtype, shape, [end, end + size]])
            end += size
        if draw.random() < 0.3:
            draw.shuffle(entries)
        texts = []
        for name, dtype, shape, offsets in entries:
            if draw.random() < 0.1:
                offsets[draw.randrange(2)] += draw.choice([-1, 1, 4, 2**32, 2**63, 2**64])
            if draw.random() < 0.05:
                shape.append(draw.choice([0, 1, 2, 2**31, 2**62, 2**63, 2**64 - 1]))
            fields = [f'"dtype":"{dtype}"', f'"shape":{shape}', f'"data_offsets":{offsets}']
            if draw.random() < 0.1:
                draw.shuffle(fields)
            if draw.random() < 0.03:
                fields.append(draw.choice(fields))
            if draw.random() < 0.03:
                fields.pop(draw.randrange(3))
            texts.append(f'"{name}":{{{",".join(fields)}}}')
        if draw.random() < 0.3:
            texts.insert(draw.randrange(len(texts) + 1), '"__metadata__":' + draw.choice(['{"format":"pt"}', "{}", "null", '{"a":"1","b":"2"}', '{"a":1}', "[]"]))
        header = ("{" + draw.choice([",", ",", ", "]).join(texts) + "}" + " " * draw.choice([0, 0, 1, 7])).encode()
        return file_of(header, bytes(max(0, end + draw.choice([0] * 8 + [-1, 1]))))

    def text(self, file):
        """Pieces of the header inserted, replaced, removed or repeated; its length is kept true, that of the data not."""
        draw = self.random
        header, data = split(file)
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            at = draw.randrange(len(header) + 1)
            until = min(len(header), at + draw.choice([0, 0, 1, 1, 2, 5, 20]))
            way = draw.random()
            piece = draw.choice(RAW) if way < 0.05 else header[at:until] * 2 if way < 0.15 else b"" if way < 0.3 else draw.choice(PIECES).encode()
            header = header[:at] + piece + header[until:]
        return file_of(header, data)

    def bytes(self, file):
        draw, changed = self.random, bytearray(file)
        for _ in range(draw.choice([1, 1, 2, 4])):
            at = draw.randrange(len(changed) + 1)
            way = draw.randrange(4)
            if way == 0 and at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            elif way == 1:
                changed[at:at] = bytes([draw.randrange(256)])
            elif way == 2:
                del changed[at:at + draw.choice([1, 1, 4, 100])]
            elif at < len(changed):
                changed[at] = draw.randrange(256)
        return bytes(changed)

    def file(self):
        way = self.random.random()
        if way < 0.3:
            return self.whole()
        base = self.random.choice(self.corpus) if self.corpus and self.random.random() < 0.5 else self.whole()
        return self.text(base) if way < 0.8 else self.bytes(base)


def reference(file):
    """Tensors by name, or None."""
    try:
        return {name: (tensor["dtype"], str(tensor["shape"]), bytes(tensor["data"])) for name, tensor in safetensors.deserialize(file)}
    except safetensors.SafetensorError:
        return None


def ours(answer, file):
    """The same of L2L's answer."""
    if answer[:1] == b"-":
        return None
    fields = answer[1:].split(b"\0")
    if len(fields) == 1:
        return {}
    data = split(file)[1]
    # A name may hold a NUL of its own: of each tensor the last four fields are without.
    tensors, place = {}, 0
    while place < len(fields) - 1:
        end = place + 1
        while not re.fullmatch(rb"[A-Z0-9_]+", fields[end]) or not fields[end + 1].startswith(b"["):
            end += 1
        name, dtype, shape, first, last = b"\0".join(fields[place:end]), *fields[end:end + 4]
        tensors[name.decode()] = (dtype.decode(), shape.decode(), data[int(first):int(last)])
        place = end + 4
    return tensors


def repeats_a_name(file):
    """Of such a header the reference takes the last entry; L2L refuses the file, perhaps for what an earlier one says."""
    names = []
    json.loads(split(file)[0], object_pairs_hook=lambda pairs: names.append([name for name, _ in pairs]))
    return any(len(set(group)) < len(group) for group in names)


def judge(file, answer, counts):
    """What is wrong; None if nothing is."""
    theirs, mine = reference(file), ours(answer, file)
    if theirs is None and mine is None:
        counts["both refuse"] += 1
    elif theirs is None:
        return "accepted, but refused by the reference"
    elif mine is None:
        reason = answer[1:].decode(errors="replace")
        known = [name for name, pattern in STRICTER.items() if re.search(pattern, reason)]
        if not known and repeats_a_name(file):
            known = ["a name that stands twice"]
        if not known:
            return f"refused, but accepted by the reference: {reason}"
        counts[known[0]] = counts.get(known[0], 0) + 1
    elif theirs != mine:
        return f"read as {mine}, by the reference as {theirs}"
    else:
        counts["both accept"] += 1
    return None


def work(arguments):
    program, inputs, seed, corpus = arguments
    generator = Generator(seed, corpus)
    counts = {"inputs": 0, "both accept": 0, "both refuse": 0}
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while counts["inputs"] < inputs:
        files = [generator.file() for _ in range(BATCH)]
        process.stdin.write(struct.pack("<I", BATCH) + b"".join(struct.pack("<I", len(file)) + file for file in files))
        process.stdin.flush()
        for file in files:
            length = process.stdout.read(4)
            if len(length) < 4:
                return counts, "the program died on one of the last thousand files"
            answer = process.stdout.read(struct.unpack("<I", length)[0])
            if wrong := judge(file, answer, counts):
                return counts, f"{wrong}\n{file!r}\n{file.hex()}"
        counts["inputs"] += BATCH
    process.stdin.close()
    process.wait()
    return counts, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verdicts", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", type=pathlib.Path, nargs="*", default=[])
    arguments = parser.parse_args()
    if safetensors is None:
        print("no safetensors package: nothing to compare with")
        return 77
    corpus = [path.read_bytes() for folder in arguments.corpus for path in sorted(folder.iterdir())]
    begin = time.monotonic()
    shares = [(arguments.verdicts, arguments.inputs // arguments.jobs, arguments.seed * 1000 + job, corpus) for job in range(arguments.jobs)]
    with multiprocessing.Pool(arguments.jobs) as pool:
        results = pool.map(work, shares)
    total = {}
    for counts, _ in results:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    faults = [fault for _, fault in results if fault]
    print(json.dumps({**total, "seconds": round(time.monotonic() - begin), "safetensors": safetensors.__version__}, indent=1))
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
