"""Bad model directories, one per name below: each is refused in two seconds, with a message of its own that names file and
field, exit status 2, and nothing written.

    bad_models_test.py FOLDER_OF_THE_TOOLS FOLDER_OF_THE_FIXTURES
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(FIXTURES))
import hub_files  # noqa: E402

MODEL = json.loads((FIXTURES / "hub_models.json").read_text())["llama"]
TENSORS = {name: (shape, hub_files.weights("llama", name, shape)) for name, shape in MODEL["shapes"].items()}
FIRST = "model.embed_tokens.weight"
LIMIT = 60 if os.environ.get("L2L_SANITIZED") == "1" else 4  # 2 s on a machine of its own


def header_of(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]


class Directory:
    """A good directory, with ways to spoil it."""

    def __init__(self, path):
        self.path = path
        hub_files.write_model(path, MODEL["config"], MODEL["shapes"])
        self.weights = path / "model.safetensors"

    def config(self, **changed):
        config = dict(MODEL["config"], **changed)
        (self.path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v != "REMOVED"}))

    def config_text(self, text):
        (self.path / "config.json").write_bytes(text)

    def raw(self, data):
        self.weights.write_bytes(data)

    def header(self, change):
        """Rewrites the header by change(header); the data stay."""
        header, data = header_of(self.weights.read_bytes())
        text = change(header)
        text = json.dumps(header).encode() if text is None else text
        self.raw(struct.pack("<Q", len(text)) + text + data)

    def tensors(self, change):
        tensors = dict(TENSORS)
        change(tensors)
        hub_files.write_safetensors(self.weights, tensors)

    def shards(self, change=None, index_change=None):
        """Two files and an index."""
        names = list(TENSORS)
        files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
        self.weights.unlink()
        for file, own in files.items():
            hub_files.write_safetensors(self.path / file, {name: TENSORS[name] for name in own})
        index = {"metadata": {}, "weight_map": {name: file for file, own in files.items() for name in own}}
        if index_change:
            index = index_change(index) or index
        text = index if isinstance(index, str) else json.dumps(index)
        (self.path / "model.safetensors.index.json").write_text(text)
        if change:
            change()


def shape_of(tensor, shape):
    def change(header):
        header[tensor]["shape"] = shape
    return change


def offsets_of(tensor, begin, end):
    def change(header):
        header[tensor]["data_offsets"] = [begin, end]
    return change


def twice(directory):
    header, data = header_of(directory.weights.read_bytes())
    text = json.dumps(header)[:-1] + f', "{FIRST}": {{"dtype": "F32", "shape": [1], "data_offsets": [{len(data)}, {len(data) + 4}]}}}}'
    directory.raw(struct.pack("<Q", len(text)) + text.encode() + data + bytes(4))


def million(directory):
    """A million more tensors, all empty."""
    header, data = header_of(directory.weights.read_bytes())
    end = max(entry["data_offsets"][1] for entry in header.values())
    more = ",".join(f'"x{i}":{{"dtype":"F32","shape":[0],"data_offsets":[{end},{end}]}}' for i in range(1000000))
    text = (json.dumps(header)[:-1] + "," + more + "}").encode()
    directory.raw(struct.pack("<Q", len(text)) + text + data)


def replace(path, other):
    path.unlink()
    other(path)


def set_bytes(directory, tensor, value):
    header, data = header_of(directory.weights.read_bytes())
    begin = header[tensor]["data_offsets"][0]
    text = json.dumps(header).encode()
    directory.raw(struct.pack("<Q", len(text)) + text + data[:begin] + value + data[begin + len(value):])


def conflicting_tables(d):
    d.config(tie_word_embeddings=True)
    d.tensors(lambda t: t.update({"lm_head.weight": (t[FIRST][0], [1.0] * len(t[FIRST][1]))}))


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
NAN = struct.pack("<f", float("nan"))
# Name: how to spoil a directory, what the message must say.
CASES = {
    "no directory": (lambda d: shutil.rmtree(d.path), "model: does not exist"),
    "a file instead of a directory": (lambda d: (shutil.rmtree(d.path), d.path.write_text("x")), "model: cannot be listed: Not a directory"),
    "no config": (lambda d: (d.path / "config.json").unlink(), "config.json"),
    "config is a folder": (lambda d: replace(d.path / "config.json", pathlib.Path.mkdir), "config.json"),
    "config is a pipe": (lambda d: replace(d.path / "config.json", os.mkfifo), "config.json"),
    "config is empty": (lambda d: d.config_text(b""), "config.json: is not a JSON object"),
    "config is a list": (lambda d: d.config_text(b"[1, 2]"), "config.json: is not a JSON object"),
    "config is cut": (lambda d: d.config_text(json.dumps(MODEL["config"]).encode()[:-9]), "config.json: is not a JSON object"),
    "config is not UTF-8": (lambda d: d.config_text(b'{"model_type": "\xff"}'), "config.json: is not a JSON object"),
    "config is a pointer": (lambda d: d.config_text(POINTER), "config.json: is a pointer of Git LFS, not the file itself: run git lfs pull"),
    "config with NaN": (lambda d: d.config_text(b'{"model_type": "llama", "rms_norm_eps": NaN}'), "NaN and Infinity are not"),
    "config of 17 MiB": (lambda d: d.config_text(b" " * (17 << 20)), "config.json: longer than 16.0 MiB"),
    "config nested 100,000 deep": (lambda d: d.config_text(b'{"model_type":' * 100000 + b"1" + b"}" * 100000), "config.json: is nested deeper than 128 levels"),
    "model type in a million lists": (lambda d: d.config_text(b'{"model_type":' + b"[" * 1000000 + b"]" * 1000000 + b"}"), "config.json: is nested deeper than 128 levels"),
    "no model type": (lambda d: d.config(model_type="REMOVED"), "model_type: is missing"),
    "unknown model type": (lambda d: d.config(model_type="t5"), 'model_type: "t5" is not built'),
    "mixture of experts": (lambda d: d.config(num_local_experts=8), "num_local_experts"),
    "quantized": (lambda d: d.config(quantization_config={"bits": 4}), "quantization_config"),
    "code of its own": (lambda d: d.config(auto_map={"AutoModel": "x.Y"}), "auto_map"),
    "unknown activation": (lambda d: d.config(hidden_act="xielu"), 'hidden_act: the activation "xielu"'),
    "unknown positions": (lambda d: d.config(rope_parameters={"rope_type": "longrope"}), "rope_type"),
    "positions without a factor": (lambda d: d.config(rope_parameters={"rope_type": "linear"}), "factor: is missing"),
    "heads do not divide": (lambda d: d.config(num_attention_heads=7, head_dim=None), "is not divisible by model.heads = 7"),
    "shared heads do not divide": (lambda d: d.config(num_key_value_heads=4), "is not divisible by model.kv_heads = 4"),
    "heads of odd size": (lambda d: d.config(head_dim=3), "model.head_dim = 3 is odd"),
    "no layers": (lambda d: d.config(num_hidden_layers=0), "num_hidden_layers: expected an integer from 1"),
    "negative size": (lambda d: d.config(hidden_size=-24), "hidden_size: expected an integer from 1"),
    "size of 2^63": (lambda d: d.config(hidden_size=2**63), "hidden_size: expected an integer from 1"),
    "size as text": (lambda d: d.config(hidden_size="24"), 'hidden_size: expected an integer from 1 to 16777216, found "24"'),
    "fraction of a layer": (lambda d: d.config(num_hidden_layers=2.5), "num_hidden_layers: expected an integer"),
    "vocabulary of another model": (lambda d: d.config(vocab_size=30), FIRST),
    "layers of another model": (lambda d: d.config(num_hidden_layers=3), "missing tensors"),
    "fewer layers than weights": (lambda d: d.config(num_hidden_layers=1), "unexpected tensors"),
    "no weights": (lambda d: d.weights.unlink(), "has no weights"),
    "pickles alone": (lambda d: replace(d.weights, lambda p: (d.path / "pytorch_model.bin").write_bytes(b"x")), "pickles run code"),
    "weights are a folder": (lambda d: replace(d.weights, pathlib.Path.mkdir), "model.safetensors"),
    "weights are a pipe": (lambda d: replace(d.weights, os.mkfifo), "model.safetensors"),
    "weights are a dangling link": (lambda d: replace(d.weights, lambda p: p.symlink_to("nowhere")), "has no weights"),
    "weights are a loop of links": (lambda d: replace(d.weights, lambda p: p.symlink_to(p.name)), "model.safetensors"),
    "weights are empty": (lambda d: d.raw(b""), "model.safetensors: 0 bytes; too short"),
    "weights are a pointer": (lambda d: d.raw(POINTER), "model.safetensors: is a pointer of Git LFS, not the file itself: run git lfs pull"),
    "header length of 2^63": (lambda d: d.raw(struct.pack("<Q", 2**63) + b"{}"), "header: a length of 9223372036854775808"),
    "header length beyond the file": (lambda d: d.raw(struct.pack("<Q", 999) + b"{}"), "header: a length of 999"),
    "header is not JSON": (lambda d: d.raw(struct.pack("<Q", 2) + b"{{"), "header: is not JSON"),
    "header is a list": (lambda d: d.raw(struct.pack("<Q", 2) + b"[]"), "header"),
    "file is cut": (lambda d: d.raw(d.weights.read_bytes()[:-100]), "model.safetensors"),
    "file is longer": (lambda d: d.raw(d.weights.read_bytes() + b"1234"), "model.safetensors"),
    "shape whose product wraps": (lambda d: d.header(shape_of(FIRST, [2**32, 2**32])), FIRST),
    "shape of rank 9": (lambda d: d.header(shape_of(FIRST, [1] * 9)), FIRST),
    "negative dimension": (lambda d: d.header(shape_of(FIRST, [-1, 24])), FIRST),
    "shape of another size than its data": (lambda d: d.header(shape_of(FIRST, [29, 25])), FIRST),
    "overlapping ranges": (lambda d: d.header(offsets_of(FIRST, 4, 4 + 29 * 24 * 4)), "tensor"),
    "range beyond the file": (lambda d: d.header(offsets_of(FIRST, 2**40, 2**40 + 29 * 24 * 4)), "tensor"),
    "range that ends before it begins": (lambda d: d.header(offsets_of(FIRST, 96, 0)), FIRST),
    "unknown dtype": (lambda d: d.header(lambda h: h[FIRST].update(dtype="F4")), FIRST),
    "integers": (lambda d: d.header(lambda h: h[FIRST].update(dtype="I32")), f'"{FIRST}" is I32'),
    "a name twice": (twice, "stands twice"),
    "a missing tensor": (lambda d: d.tensors(lambda t: t.pop("model.norm.weight")), "1 missing tensors:\n    model.norm.weight"),
    "a tensor too many": (lambda d: d.tensors(lambda t: t.update({"extra": ([1], [1.0])})), '1 unexpected tensors:\n    "extra"'),
    "a transposed tensor": (lambda d: d.header(shape_of("lm_head.weight", [24, 29])), '"lm_head.weight" is F32'),
    "a head that is missing": (lambda d: d.tensors(lambda t: t.pop("lm_head.weight")), "model.new_head = true"),
    "tied tables that differ": (conflicting_tables, "is not the same as"),
    "a million tensors": (million, "1000000 unexpected tensors"),
    "a weight that is not a number": (lambda d: set_bytes(d, "model.norm.weight", NAN), "element 0 is not finite"),
    "index is not JSON": (lambda d: d.shards(index_change=lambda i: "{"), "index.json: is not a JSON object"),
    "index without a map": (lambda d: d.shards(index_change=lambda i: {"a": 1}), "weight_map: is not an object"),
    "index with an empty map": (lambda d: d.shards(index_change=lambda i: {"weight_map": {}}), "weight_map: is empty"),
    "index with numbers for files": (lambda d: d.shards(index_change=lambda i: i["weight_map"].update({FIRST: 3})), "is not the name of a file"),
    "index names a file outside": (lambda d: d.shards(index_change=lambda i: i["weight_map"].update({FIRST: "../a.safetensors"})), "outside of the directory"),
    "index names an absolute path": (lambda d: d.shards(index_change=lambda i: i["weight_map"].update({FIRST: "/etc/passwd"})), "outside of the directory"),
    "index names a missing file": (lambda d: d.shards(lambda: (d.path / "b.safetensors").unlink()), '"b.safetensors", which is missing'),
    "index names the wrong file": (lambda d: d.shards(index_change=lambda i: i["weight_map"].update({FIRST: "b.safetensors"})), "b.safetensors|a.safetensors: tensor|does not say that it is here"),
    "index leaves a tensor out": (lambda d: d.shards(index_change=lambda i: i["weight_map"].pop(FIRST) and None), "does not say that it is here"),
}


class BadModels(unittest.TestCase):
    def test_each_is_refused(self):
        messages = {}
        for name, (spoil, expected) in CASES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as place:
                work = pathlib.Path(place)
                spoil(Directory(work / "model"))
                before = sorted(work.rglob("*"))
                ids = pathlib.Path(place + "-ids.txt")
                ids.write_text("1 2 3")
                begin = time.monotonic()
                done = subprocess.run([TOOLS / "l2l-export", work / "model", work / "out", "--quiet"], capture_output=True,
                                      text=True)
                seconds = time.monotonic() - begin
                ids.unlink()
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(any(part in done.stderr for part in expected.split("|")), done.stderr)
                self.assertLess(seconds, LIMIT)
                self.assertEqual(sorted(work.rglob("*")), before)
                messages[name] = done.stderr.replace(str(work), "")
        self.assertGreaterEqual(len(CASES), 60)

    def test_training_refuses_them_too(self):
        for name in ("a missing tensor", "file is cut", "a weight that is not a number", "unknown activation"):
            with self.subTest(name), tempfile.TemporaryDirectory() as place:
                work = pathlib.Path(place)
                CASES[name][0](Directory(work / "model"))
                (work / "data").write_bytes(b"\x01\x00" * 400)
                (work / "run.toml").write_text(f'[model]\npretrained = "{work / "model"}"\nsequence = 16\n[data]\n'
                                               f'train = ["{work / "data"}"]\nformat = "tokens"\n[checkpoint]\n'
                                               f'directory = "{work / "out"}"\n')
                done = subprocess.run([TOOLS / "l2l-train", work / "run.toml", "--quiet"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(CASES[name][1].split("|")[0], done.stderr)
                self.assertFalse((work / "out").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
