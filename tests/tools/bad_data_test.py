"""Bad training data, one file per name below: each is refused with a message of its own that names file and field, exit
status 2, and no checkpoint. And the kinds of data that are read, by a run of two steps.

    bad_data_test.py FOLDER_OF_THE_TOOLS FOLDER_OF_THE_FIXTURES
"""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

TOOLS = pathlib.Path(sys.argv[1]).resolve()
LIMIT = 20 if os.environ.get("L2L_SANITIZED") == "1" else 5

CONFIG = """
[model]
architecture = "{architecture}"
layers = 1
hidden = 16
heads = 2
vocabulary = {vocabulary}
sequence = 16
dropout = 0.0
[data]
train = ["{data}"]
{more}
[batch]
micro_batch = 2
micro_batches = 2
[checkpoint]
directory = "{out}"
[run]
steps = 2
"""


def llm_c(magic=20240520, version=1, tokens=100, data=200):
    return struct.pack("<3i", magic, version, tokens) + bytes(1012) + bytes(data)


def npy(header, data=200):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(data)


def index(version=1, dtype=8, lengths=(60, 40), offsets=(0, 120), documents=(0, 1, 2), sequences=None):
    count = len(lengths) if sequences is None else sequences
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, dtype, count, len(documents)) + struct.pack(f"<{len(lengths)}i", *lengths) +
            struct.pack(f"<{len(offsets)}q", *offsets) + struct.pack(f"<{len(documents)}q", *documents))


def bomb():
    """A gigabyte of spaces, by gzip."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b" " * (16 << 20)
    return b"".join(compressor.compress(piece) for _ in range(64)) + compressor.flush()


def rows(*objects):
    return "".join(json.dumps(row) + "\n" for row in objects).encode()


GOOD_ROW = {"text": "a row of text that is good"}
CHAT = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}

# Name: (file name, its bytes, further files, lines of [data], part of the message)
BAD = {
    "broken UTF-8 in JSON": ("a.jsonl", rows(GOOD_ROW) + b'{"text": "\xff"}\n', {}, "", "a.jsonl: line 2: is not JSON in UTF-8"),
    "a row cut short": ("a.jsonl", rows(GOOD_ROW)[:-5], {}, "", "a.jsonl: line 1: is not JSON"),
    "a row that is a list": ("a.jsonl", b"[1]\n", {}, "", "line 1: is not a JSON object"),
    "a text that is a number": ("a.jsonl", rows({"text": 3}), {}, "", 'line 1: "text" is not a string'),
    "rows without a known field": ("a.jsonl", rows({"body": "x"}), {}, "", 'it has "body"; name the column of the text by data.columns'),
    "a column that rows lack": ("a.jsonl", rows(GOOD_ROW), {}, 'columns = ["body"]', 'line 1: has no "body"'),
    "a prompt without completion": ("a.jsonl", rows({"prompt": "x"}), {}, "", 'has no "completion"'),
    "no messages": ("a.jsonl", rows({"messages": []}), {}, 'template = "chatml"', '"messages" is not a list of messages'),
    "a message without role": ("a.jsonl", rows({"messages": [{"content": "x"}]}), {}, 'template = "chatml"', 'message 1 has no string "role"'),
    "roles out of turn": ("a.jsonl", rows({"messages": CHAT["messages"][::-1]}), {}, 'template = "mistral"', "take turns"),
    "a role without a place": ("a.jsonl", rows({"messages": [{"role": "tool", "content": "x"}]}), {}, 'template = "zephyr"', '"tool" has no place'),
    "no chat template": ("a.jsonl", rows(CHAT), {}, "", "has no chat template; name the one to use"),
    "nothing to learn of a text": ("a.jsonl", rows(GOOD_ROW), {}, 'learn = "assistant"', "would learn nothing"),
    "nothing to learn of text files": ("a.txt", b"text", {}, 'learn = "completion"', "a.txt: text files are learnt as a whole, but data.learn ="),
    "rows of a stream that are learnt in part": ("a.jsonl", rows(CHAT), {}, 'learn = "assistant"\nsamples = "stream"', "in which all is predicted"),
    "three columns": ("a.csv", b"a,b,c\n", {}, 'columns = ["a", "b", "c"]', "data.columns names 3 columns"),
    "a table without the column": ("a.csv", b"id,body\n1,x\n", {}, "", 'there is no column "text" among "id", "body"'),
    "a row with missing columns": ("a.tsv", b"id\ttext\n1\tx\n2\n", {}, "", "a.tsv: line 3: has 1 columns; the header names 2"),
    "a table in UTF-16": ("a.csv", "id,text\n1,x\n".encode("utf-16"), {}, "", "a.csv: is UTF-16 (it begins with a byte order mark): convert it to UTF-8"),
    "a table in UTF-16 without a mark": ("a.tsv", "text\nsome words\n".encode("utf-16-le") * 9, {}, "", "a.tsv: line 1: holds zero bytes, as UTF-16 does"),
    "a column of other bytes": ("a.csv", b"caf\xe9\x02,b\n", {}, "", 'there is no column "text" among "caf??", "b"'),
    "quotes that do not end": ("a.csv", b'text\n"x\n', {}, "", "a field in quotes does not end"),
    "text behind quotes": ("a.csv", b'text\n"x"y\n', {}, "", "there is text behind the quotes"),
    "no rows": ("a.jsonl", b"", {}, "", "a.jsonl): 0 tokens; at least 2 are needed"),
    "no rows to pack": ("a.jsonl", b"", {}, 'samples = "packed"', "a.jsonl): 0 tokens; at least 2 are needed"),
    "an empty file": ("a.txt", b"", {}, "", "tokens"),
    "gzip cut short": ("a.jsonl.gz", gzip.compress(rows(GOOD_ROW) * 50)[:-12], {}, "", "it is cut short"),
    "gzip with a wrong checksum": ("a.txt.gz", gzip.compress(b"text" * 50)[:-8] + bytes(8), {}, "", "is damaged gzip"),
    "a gzip bomb": ("a.txt.gz", None, {}, "", "times its size: that is no text"),
    "a zstd file cut short": ("a.txt", b"\x28\xb5\x2f\xfd\x24\x0e", {}, "", "it is cut short"),
    "zstd that is none": ("a.txt", b"\x28\xb5\x2f\xfd" + b"\xff" * 40, {}, "", "is damaged zstd"),
    "Parquet": ("a.parquet", b"PAR1" + bytes(40), {}, "", "to_json"),
    "llm.c, truncated header": ("a.bin", llm_c()[:500], {}, "", "the header of 1024 bytes is cut short"),
    "llm.c, an unknown version": ("a.bin", llm_c(version=3), {}, "", "version 3 is not known"),
    "llm.c, a lying header": ("a.bin", llm_c(tokens=101), {}, "", "the header counts 101 tokens"),
    "llm.c, fewer than no tokens": ("a.bin", llm_c(tokens=-5), {}, "", "counts -5 tokens"),
    "Megatron without its index": ("a.bin", bytes(200), {}, 'format = "megatron"', "a.idx"),
    "Megatron, a truncated index": ("a.bin", bytes(200), {"a.idx": index()[:40]}, "", "document boundaries, which make"),
    "Megatron, a lying index": ("a.bin", bytes(200), {"a.idx": index(lengths=(60, 41))}, "", "its index counts 101 tokens"),
    "Megatron, sequences that wrap": ("a.bin", bytes(200), {"a.idx": index(sequences=1 << 62)}, "", "does not fit in 64 bits"),
    "Megatron, floats": ("a.bin", bytes(200), {"a.idx": index(dtype=7)}, "", "elements of type 7"),
    "Megatron, overlapping sequences": ("a.bin", bytes(200), {"a.idx": index(offsets=(0, 100))}, "", "sequence 1 begins at byte 100"),
    "npy, a truncated header": ("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + bytes(20), {}, "", "the header is cut short"),
    "npy, floats": ("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (50,), }"), {}, "", "elements of type <f4"),
    "npy, a lying shape": ("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (101,), }"), {}, "", "'shape' stands for 202 bytes"),
    "npy, a shape that wraps": ("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (9223372036854775808, 4), }"), {}, "", "does not fit"),
    "raw ids without a name": ("a.bin", bytes(200), {}, "", 'set data.format = "tokens" for raw uint16'),
    "an id out of range": ("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (100,), }", 0) + b"\xff\xff" * 100, {}, "", "token 65535 at byte"),
    "shards of two widths": ("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (100,), }"),
                             {"b.npy": npy("{'descr': '<u4', 'fortran_order': False, 'shape': (50,), }")}, "", "of another kind"),
    "documents of a shard beyond its end": ("a.ids", bytes(200), {"a.ids.json": b'{"document_ends": [50, 200]}'}, 'format = "tokens"', "document_ends"),
    "a description of a shard that is cut off": ("a.bin", bytes(200), {"a.bin.json": b'{"dtype": "uint16"'}, "", "a.bin.json: all of it: is no JSON"),
    "a shard that is cut off": ("a.ids", bytes(200), {"a.ids.json": b'{"dtype": "uint16", "tokenizer_hash": "1", "tokens": 101}'}, 'format = "tokens"',
                                "a.ids.json: tokens: is 101, but"),
    "packing what has no documents": ("a.ids", bytes(200), {}, 'format = "tokens"\nsamples = "packed"', "has no documents"),
    "a source without files": ("a.txt", b"text", {}, "[[data.source]]\nweight = 2.0", "data.train and [[data.source]] are both set"),
    "a kind that is not built": ("a.txt", b"text", {}, 'format = "parquet"', "data.format"),
    "a template that is not built": ("a.jsonl", rows(CHAT), {}, 'template = "phi3"', "data.template"),
    "classes that nobody learns": ("a.jsonl", rows(GOOD_ROW), {}, 'label = "class"', "learns no labels"),
    "masks that an encoder cannot learn": ("a.jsonl", rows(CHAT), {}, 'learn = "assistant"\ntemplate = "chatml"', "predicts masked tokens"),
}


class Data(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.work = pathlib.Path(self.temporary.name)

    def train(self, data, more, *arguments, architecture="llama", vocabulary=300):
        config = self.work / "run.toml"
        config.write_text(CONFIG.format(data=data, more=more, out=self.work / "out", architecture=architecture, vocabulary=vocabulary))
        return subprocess.run([str(TOOLS / "l2l-train"), str(config), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")})

    @staticmethod
    def missing(content):
        """What is said of compressed text where the program was built without the library."""
        kind = "gzip" if content is None or content[:2] == b"\x1f\x8b" else "zstd" if content[:4] == b"\x28\xb5\x2f\xfd" else ""
        return os.environ.get(f"L2L_{kind.upper()}") == "0" and f"compressed by {kind}, which this program was built without"

    def test_each_is_refused(self):
        seen = {}
        for name, (file, content, others, more, message) in BAD.items():
            with self.subTest(name):
                (self.work / file).write_bytes(bomb() if content is None else content)
                for other, its in others.items():
                    (self.work / other).write_bytes(its)
                pattern = self.work / ("*.npy" if "b.npy" in others else file)
                began = time.monotonic()
                done = self.train(pattern, more, architecture="bert" if "encoder" in name else "llama")
                seconds = time.monotonic() - began
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(self.missing(content) or message, done.stderr)
                self.assertLess(seconds, LIMIT)
                self.assertFalse((self.work / "out").exists())
                self.assertEqual(list((self.work / "cache").glob("**/*.tmp*")), [])
                if not self.missing(content):
                    seen.setdefault(done.stderr.replace(file, ""), []).append(name)
                for made in (file, *others):
                    (self.work / made).unlink()
        self.assertEqual([names for names in seen.values() if len(names) > 1], [])
        self.assertGreaterEqual(len(BAD), 40)

    def test_a_table_of_names_alone(self):
        (self.work / "a.csv").write_text("text,class\n")
        done = self.train(self.work / "a.csv", 'label = "class"\nsamples = "padded"', "--set", "model.head=classification")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a.csv): has no rows with a text", done.stderr)

    def test_each_kind_is_read(self):
        text = "a text of some words that is long enough for a sequence or two; "
        kinds = {
            "a.txt": (text * 9).encode(),
            "b.txt.gz": gzip.compress((text * 9).encode()),
            "c.jsonl": rows(*[{"text": text[:n]} for n in range(2, 60)]),
            "d.jsonl.gz": gzip.compress(rows(*[{"prompt": text[:n], "completion": text[:20]} for n in range(2, 60)])),
            "e.csv": b"id,text\n" + b"".join(b'%d,"%s, quoted"\n' % (n, text[:n].encode()) for n in range(60)),
            "f.tsv": b"text\n" + b"\n".join(text[:n].encode() for n in range(1, 60)),
            "g.bin": llm_c(),
            "h.npy": npy("{'descr': '<u2', 'fortran_order': False, 'shape': (10, 10), }"),
        }
        (self.work / "a.txt.json").write_text("no JSON, and nothing of ours")
        for file, content in kinds.items():
            (self.work / file).write_bytes(content)
            for samples in ("stream", "packed", "padded"):
                with self.subTest(file=file, samples=samples):
                    done = self.train(self.work / file, f'samples = "{samples}"')
                    if file == "g.bin" and samples != "stream":
                        self.assertIn("has no documents", done.stderr)
                        continue
                    if self.missing(content):
                        self.assertIn(self.missing(content), done.stderr)
                        continue
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(json.loads(done.stdout.splitlines()[-1])["steps"], 2)

    def test_what_is_no_text_is_warned_of(self):
        names = ["a.txt", "b.gz", "c.png"]
        contents = dict(zip(names, (b"text " * 30000, gzip.compress(b"text " * 30000), b"\x89PNG\r\n" + b"x" * 65000 + b"\0")))
        for bad, tokenizer in (("", "bytes"), ("b.gz", "bytes"), ("c.png", "bytes"), ("c.png", self.work / "vocab.txt")):
            for name, content in contents.items():
                (self.work / name).write_bytes(content)
            (self.work / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntext\n")
            if bad == "b.gz":
                (self.work / bad).write_bytes(gzip.compress(b"text\0" * 100))
            if bad != "c.png":
                (self.work / "c.png").write_bytes(b"text " * 30)
            if bad == "b.gz" and self.missing(contents[bad]):
                continue
            for said in ('format = "auto"', 'format = "text"'):
                with self.subTest(bad, tokenizer=tokenizer, said=said):
                    done = self.train(self.work / "?.*", f'{said}\ntokenizer = "{tokenizer}"', "--dry-run")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    warned = [line for line in done.stderr.splitlines() if "is read as text, but has bytes of 0" in line]
                    self.assertEqual(len(warned), int(bad != "" and "auto" in said), done.stderr)
                    for line in warned:
                        self.assertIn(f"{self.work / bad}: is read", line)
                        self.assertIn("leave it out of data.train", line)

    def test_utf16_is_refused_in_every_kind_of_rows(self):
        table, lines = "text\n" + "some words that are long enough\n" * 9, rows(GOOD_ROW).decode() * 9
        for file, text in (("a.csv", table), ("a.tsv", table), ("a.jsonl", lines)):
            for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
                with self.subTest(file=file, encoding=encoding):
                    (self.work / file).write_bytes(mark + text.encode(encoding))
                    done = self.train(self.work / file, "", "--dry-run")
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"{file}: is UTF-16 (it begins with a byte order mark): convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", done.stderr)
                    (self.work / file).write_bytes(text.encode(encoding))
                    self.assertIn(f"{file}: line 1: holds zero bytes, as UTF-16 does", self.train(self.work / file, "", "--dry-run").stderr)

    def test_what_is_not_utf8_is_warned_of(self):
        (self.work / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntext\n")
        latin = b"text\n" * 9 + b"text caf\xe9\n" + b"text " * 90
        long = b"text " * 101 + "\u00e9".encode() * 40000  # the first 64 KiB end within a character
        cases = (("a.txt", latin, "vocab", 10), ("a.csv", latin, "vocab", 10), ("a.txt", latin, "bytes", 0), ("a.csv", latin, "bytes", 0),
                 ("a.txt", long, "vocab", 0), ("a.txt", long + b"\xe9", "vocab", 0), ("a.txt.gz", gzip.compress(latin), "vocab", 10),
                 ("a.txt", b"text " * 40 + b"\xc3", "vocab", 1), ("a.txt", b"text " * 40 + b"caf\xe9\0", "vocab", 0))
        for file, content, tokenizer, line in cases:
            with self.subTest(file=file, tokenizer=tokenizer, line=line):
                if self.missing(content):
                    continue
                (self.work / file).write_bytes(content)
                (self.work / ("b" + file[1:])).write_bytes(content)
                path = "bytes" if tokenizer == "bytes" else self.work / "vocab.txt"
                for _ in range(2):  # the second time, tokens are kept already
                    done = self.train(self.work / ("[ab]" + file[1:]), f'tokenizer = "{path}"', "--dry-run")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    warned = [text for text in done.stderr.splitlines() if "is not UTF-8" in text]
                    self.assertEqual(len(warned), int(line > 0), done.stderr)
                    for text in warned:
                        self.assertIn(f"{self.work / file}: line {line}: is not UTF-8; bytes that are not count as U+FFFD: convert the file (iconv", text)
                        self.assertTrue(text.endswith("; more such files: 1"), text)
                for name in (file, "b" + file[1:]):
                    (self.work / name).unlink()

    def test_a_file_that_shrinks_is_an_error(self):
        """Not a signal: tokens are read, not mapped."""
        (self.work / "a.ids").write_bytes(bytes(200000))
        config = self.work / "run.toml"
        config.write_text(CONFIG.format(data=self.work / "a.ids", more='format = "tokens"', out=self.work / "out", architecture="llama", vocabulary=300))
        run = subprocess.Popen([str(TOOLS / "l2l-train"), str(config), "--steps", "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")})
        messages = ""
        while "step 1/" not in messages:
            messages += run.stderr.readline()
        os.truncate(self.work / "a.ids", 100)
        messages = run.communicate(timeout=60)[1]
        self.assertIn("a.ids: became shorter while it was read", messages)
        self.assertGreater(run.returncode, 0)

    def test_a_mixture(self):
        """Two sources of kinds of their own; bad ones are refused by number."""
        (self.work / "a.jsonl").write_bytes(rows(*[{"text": "some words " * (1 + n % 3)} for n in range(30)]))
        (self.work / "b.txt").write_bytes(b"other words, " * 40)
        config = self.work / "run.toml"
        good = CONFIG.replace('train = ["{data}"]', "samples = \"stream\"").format(more="", out=self.work / "out", architecture="llama", vocabulary=300)
        sources = f'[[data.source]]\ntrain = ["{self.work / "a.jsonl"}"]\nweight = 3.0\n[[data.source]]\ntrain = ["{self.work / "b.txt"}"]\n'
        for text, status, message in ((sources, 0, ""), (sources.replace("weight = 3.0", "weight = -1.0"), 2, "data.source.weight"),
                                      (sources.replace("weight", "wieght"), 2, "unknown key data.source.wieght"),
                                      (sources.replace("b.txt", "missing.txt"), 2, "data.source 2: no file matches")):
            config.write_text(good.replace("[batch]", text + "[batch]"))
            done = subprocess.run([str(TOOLS / "l2l-train"), str(config)], capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")})
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(message, done.stderr)
        resumed = subprocess.run([str(TOOLS / "l2l-train"), str(config.parent / "run.toml"), "--resume", str(self.work / "out")], capture_output=True, text=True)
        self.assertEqual(resumed.returncode, 2)  # of the last, whose second source is missing

    def test_how_it_is_cut_changes_nothing(self):
        """The loss is the mean over the predicted tokens, whatever the microbatches; another order of rows is another run."""
        (self.work / "a.jsonl").write_bytes(rows(*[{"prompt": "question " * (n % 7), "completion": "answer " * (1 + n % 5)} for n in range(80)]))
        losses = {}
        for cut in ("2x2", "4x1", "1x4"):
            rows_, count = cut.split("x")
            done = self.train(self.work / "a.jsonl", 'learn = "completion"', "--set", f"batch.micro_batch={rows_}", "--set", f"batch.micro_batches={count}",
                              "--set", "checkpoint.directory=''")
            self.assertEqual(done.returncode, 0, done.stderr)
            losses[cut] = json.loads(done.stdout.splitlines()[-1])["loss"]
        for loss in losses.values():
            self.assertAlmostEqual(loss, losses["2x2"], delta=1e-5)
        again = self.train(self.work / "a.jsonl", 'learn = "completion"\norder = "sequential"', "--set", "checkpoint.directory=''")
        self.assertNotEqual(json.loads(again.stdout.splitlines()[-1])["loss"], losses["2x2"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
