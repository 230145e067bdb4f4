"""GGUF files of every decoder family: keys, names and bits of all tensors, by a reader of the test's own and, where it is
installed, by the gguf package; what such files cannot express is refused with exit status 2, and nothing is written.

    gguf_test.py FOLDER_OF_THE_TOOLS FOLDER_OF_THE_FIXTURES
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TOOLS, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(FIXTURES))
import hub_files  # noqa: E402

try:
    import gguf
    import numpy
except ImportError:
    gguf = None

MODELS = json.loads((FIXTURES / "hub_models.json").read_text())
TOKENIZERS = json.loads((FIXTURES / "tokenizers.json").read_text())["tokenizers"]
F32, F16, Q8_0, BF16 = 0, 1, 8, 30

# Fixtures that llama.cpp has, with what it has not replaced.
GOOD = {"gpt2": {}, "gpt2-untied": {"activation_function": "gelu_new"}, "llama": {}, "llama-tied": {}, "llama-biases": {},
        "llama-linear": {}, "llama-dynamic": {}, "llama-llama3": {}, "llama-yarn": {}, "mistral": {}, "mistral-full": {},
        "qwen2": {}, "qwen2-window": {}, "qwen3": {}, "gemma2": {"query_pre_attn_scalar": 8},
        "gemma3": {"query_pre_attn_scalar": 8}, "gemma3-linear": {"query_pre_attn_scalar": 8}}
# What llama.cpp has not, and a part of the message.
REFUSED = {
    "bert": ({}, "continues no text"),
    "gpt2-untied": ({}, 'model.activation = "gelu", which llama.cpp cannot express for gpt2'),
    "qwen3-biases": ({}, "model.attention_bias = true, which llama.cpp cannot express for qwen3"),
    "gemma2": ({}, "model.query_scale = 24"),
    "gemma2-plain": ({"query_pre_attn_scalar": 8}, "without attention_softcap or logit_softcap"),
    "llama-yarn-scaled": ({}, "rope_beta_fast"),
}
NAMES = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output", "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down", "embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}


def run(*command, status=0):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == status, f"{command}: status {done.returncode}: {done.stderr}"
    return done


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def away(number):
    """Rounds half away from zero."""
    return int(math.floor(abs(number) + 0.5)) * (1 if number >= 0 else -1)


def encode(kind, numbers):
    if kind == F32:
        return struct.pack(f"<{len(numbers)}f", *numbers)
    if kind == F16:
        return struct.pack(f"<{len(numbers)}e", *numbers)
    if kind == BF16:
        bits = struct.unpack(f"<{len(numbers)}I", struct.pack(f"<{len(numbers)}f", *numbers))
        return struct.pack(f"<{len(numbers)}H", *(bit + 0x8000 >> 16 for bit in bits))
    blocks = b""
    for begin in range(0, len(numbers), 32):
        block = numbers[begin:begin + 32]
        scale = f32(max(map(abs, block)) / 127)
        inverse = f32(1 / scale) if scale else 0
        blocks += struct.pack("<e32b", scale, *(away(f32(number * inverse)) for number in block))
    return blocks


class Reader:
    """Of a GGUF file, after the specification."""

    def __init__(self, path):
        self.data, self.place = pathlib.Path(path).read_bytes(), 0
        assert self.take(4) == b"GGUF" and self.number("I") == 3
        tensors, keys = self.number("Q"), self.number("Q")
        self.keys = {self.string(): self.value(self.number("I")) for _ in range(keys)}
        infos = [(self.string(), [self.number("Q") for _ in range(self.number("I"))], self.number("I"), self.number("Q"))
                 for _ in range(tensors)]
        begin = (self.place + 31) // 32 * 32
        self.tensors = {}
        for name, sizes, kind, offset in infos:
            assert offset % 32 == 0
            count = math.prod(sizes)
            length = {F32: 4 * count, F16: 2 * count, BF16: 2 * count, Q8_0: count // 32 * 34}[kind]
            self.tensors[name] = (sizes[::-1], kind, self.data[begin + offset:begin + offset + length])
        assert len(self.data) == begin + max(infos[i][3] + (len(self.tensors[infos[i][0]][2]) + 31) // 32 * 32
                                             for i in range(tensors))

    def take(self, count):
        self.place += count
        return self.data[self.place - count:self.place]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def string(self):
        return self.take(self.number("Q")).decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            each, count = self.number("I"), self.number("Q")
            return [self.value(each) for _ in range(count)]
        return self.number({4: "I", 5: "i", 6: "f", 7: "?"}[kind])


def expected_tensor(config, name, shape, numbers):
    """Its name in the file, its shape there, and its numbers there."""
    model = config["model_type"]
    for prefix in ("transformer.", "model."):
        name = name.removeprefix(prefix)
    module, kind = name.rsplit(".", 1)
    block = None
    for prefix in ("h.", "layers."):
        if module.startswith(prefix):
            block, module = module.removeprefix(prefix).split(".", 1)
    if module == "post_attention_layernorm":
        other = "post_attention_norm" if model.startswith("gemma") else "ffn_norm"
    else:
        other = NAMES[module]
    if model == "gpt2" and len(shape) == 2 and block is not None:
        rows, columns = shape
        numbers = [numbers[row * columns + column] for column in range(columns) for row in range(rows)]
        shape = [columns, rows]
    if model.startswith("gemma") and "norm" in module:
        numbers = [f32(number + 1) for number in numbers]
    heads = {"self_attn.q_proj": "num_attention_heads", "self_attn.k_proj": "num_key_value_heads"}.get(module)
    if model in ("llama", "mistral") and heads:
        columns = len(numbers) // shape[0]
        rows = [numbers[row * columns:(row + 1) * columns] for row in range(shape[0])]
        size = shape[0] // config[heads]
        halves = [[rows[begin:begin + size // 2], rows[begin + size // 2:begin + size]]
                  for begin in range(0, shape[0], size)]
        numbers = [number for head in halves for pair in zip(*head) for row in pair for number in row]
    return (f"blk.{block}.{other}" if block is not None else other) + "." + kind, shape, numbers


class Gguf(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.folder.name)
        self.count = 0

    def tearDown(self):
        self.folder.cleanup()

    def model(self, name, changed=None, shapes=None):
        self.count += 1
        folder = self.work / f"model{self.count}"
        fixture = MODELS[name]
        hub_files.write_model(folder, dict(fixture["config"], **(changed or {})), shapes or fixture["shapes"])
        return folder

    def export(self, folder, kind="f32", status=0):
        self.count += 1
        target = self.work / f"{self.count}.gguf"
        done = run(TOOLS / "l2l-export", folder, target, "--format", "gguf", "--type", kind, status=status)
        left = [path.name for path in self.work.iterdir() if path.name.startswith(".")]
        self.assertEqual(left, [])
        self.assertEqual(target.exists(), status == 0)
        return target, done.stderr

    def check_tensors(self, name, changed, shapes, kind):
        folder = self.model(name, changed, shapes)
        config = dict(MODELS[name]["config"], **changed)
        target = self.export(folder, {F32: "f32", F16: "f16", BF16: "bf16", Q8_0: "q8_0"}[kind])[0]
        read = Reader(target)
        found = dict(read.tensors)
        for parameter, shape in shapes.items():
            numbers = hub_files.weights(config["model_type"], parameter, shape)
            there, size, numbers = expected_tensor(config, parameter, shape, numbers)
            own = F32 if len(shape) == 1 or there == "position_embd.weight" else kind
            own = F16 if own == Q8_0 and size[1] % 32 else own
            with self.subTest(name, tensor=there, kind=kind):
                self.assertEqual(found.pop(there), (size, own, encode(own, numbers)))
        found.pop("rope_freqs.weight", None)
        self.assertEqual(found, {})
        return target, read

    def test_tensors_and_keys(self):
        for name, changed in GOOD.items():
            config = dict(MODELS[name]["config"], **changed)
            for kind in (F32, F16, BF16):
                _, read = self.check_tensors(name, changed, MODELS[name]["shapes"], kind)
            keys, architecture = read.keys, {"mistral": "llama", "gemma3_text": "gemma3"}.get(
                config["model_type"], config["model_type"])
            with self.subTest(name):
                self.assertEqual(keys["general.architecture"], architecture)
                self.assertEqual(keys[f"{architecture}.block_count"], config.get("num_hidden_layers", config.get("n_layer")))
                self.assertEqual(keys[f"{architecture}.vocab_size"], config["vocab_size"])
                self.assertEqual(keys["general.file_type"], 32)
                self.assertEqual(keys["tokenizer.ggml.model"], "none")
                if architecture != "gpt2":
                    self.assertEqual(keys[f"{architecture}.attention.head_count_kv"], config["num_key_value_heads"])

    def test_blocks_of_eight_bits(self):
        shapes = {key: [64 if size == 24 else 96 if size == 72 else size for size in shape]
                  for key, shape in MODELS["llama"]["shapes"].items()}
        changed = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=50)
        for key in list(shapes):
            if "mlp" in key:
                shapes[key] = [64, 50] if "down" in key else [50, 64]
            elif "k_proj" in key or "v_proj" in key:
                shapes[key] = [32, 64]
            elif "q_proj" in key or "o_proj" in key:
                shapes[key] = [64, 64]
        target, read = self.check_tensors("llama", changed, shapes, Q8_0)
        self.assertEqual(read.tensors["blk.0.ffn_up.weight"][1], Q8_0)
        self.assertEqual(read.tensors["blk.0.ffn_down.weight"][1], F16)  # rows of 50 are no whole blocks
        if gguf is None:
            self.skipTest("the gguf package is not installed")
        for tensor in gguf.GGUFReader(target).tensors:
            shape, kind, data = read.tensors[tensor.name]
            self.assertEqual(list(reversed(tensor.shape.tolist())), shape)
            self.assertEqual(tensor.data.tobytes(), data)
            if kind == Q8_0:
                original = next(parameter for parameter, shape in shapes.items()
                                if expected_tensor(dict(MODELS["llama"]["config"], **changed), parameter, shape,
                                                   [0.0] * math.prod(shape))[0] == tensor.name)
                numbers = hub_files.weights("llama", original, shapes[original])
                numbers = expected_tensor(dict(MODELS["llama"]["config"], **changed), original, shapes[original], numbers)[2]
                theirs = gguf.quants.quantize(numpy.array(numbers, numpy.float32).reshape(shape),
                                              gguf.GGMLQuantizationType.Q8_0)
                self.assertEqual(theirs.tobytes(), data)

    def test_the_package_reads_every_family(self):
        if gguf is None:
            self.skipTest("the gguf package is not installed")
        for name, changed in GOOD.items():
            target = self.export(self.model(name, changed), "f16")[0]
            own, theirs = Reader(target), gguf.GGUFReader(target)
            with self.subTest(name):
                for tensor in theirs.tensors:
                    self.assertEqual(tensor.data.tobytes(), own.tensors[tensor.name][2])
                    self.assertEqual(tensor.tensor_type, own.tensors[tensor.name][1])
                for key, value in own.keys.items():
                    self.assertEqual(theirs.get_field(key).contents(), value)

    def test_rope(self):
        linear = Reader(self.export(self.model("llama-linear"))[0]).keys
        self.assertEqual((linear["llama.rope.scaling.type"], linear["llama.rope.scaling.factor"]), ("linear", 4))
        yarn = Reader(self.export(self.model("llama-yarn"))[0]).keys
        self.assertEqual(yarn["llama.rope.scaling.original_context_length"], 32)
        self.assertAlmostEqual(yarn["llama.rope.scaling.attn_factor"], 1, 6)
        sizes, kind, data = Reader(self.export(self.model("llama-llama3"))[0]).tensors["rope_freqs.weight"]
        self.assertEqual((sizes, kind), ([2], F32))
        # factor 8, original context 32: the first pair's wavelength 2 pi is below 32/4, the second's 200 pi above 32.
        self.assertEqual(struct.unpack("<2f", data), (1, 8))

    def test_windows(self):
        target, remarks = self.export(self.model("mistral"))
        self.assertEqual(Reader(target).keys["llama.context_length"], 7)
        self.assertIn("llama.cpp has no sliding window for mistral", remarks)
        keys = Reader(self.export(self.model("gemma3", {"query_pre_attn_scalar": 8}))[0]).keys
        self.assertEqual(keys["gemma3.attention.sliding_window_pattern"], [True] * 5 + [False, True])
        self.assertEqual(keys["gemma3.attention.sliding_window"], 7)

    def test_what_llama_cpp_has_not_is_refused(self):
        for name, (changed, part) in REFUSED.items():
            with self.subTest(name):
                self.assertIn(part, self.export(self.model(name, changed), status=2)[1])
        folder = self.model("llama")
        target = self.export(folder)[0]
        again = run(TOOLS / "l2l-export", folder, target, "--format", "gguf", status=2)
        self.assertIn("exists already", again.stderr)
        for more in (["--format", "gguf", "--type", "q4_0"], ["--format", "gguf", "--dtype", "bf16"], ["--type", "f16"],
                     ["--format", "gguf", "--max-shard-size", "1GB"]):
            run(TOOLS / "l2l-export", folder, self.work / "no.gguf", *more, status=2)
            self.assertFalse((self.work / "no.gguf").exists())

    def with_tokenizer(self, tokenizer, vocabulary=64, **files):
        shapes = {key: [vocabulary if size == 29 else size for size in shape]
                  for key, shape in MODELS["llama"]["shapes"].items()}
        folder = self.model("llama", {"vocab_size": vocabulary}, shapes)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    def byte_level(self, **parts):
        vocabulary = {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4, "<end>": 6}
        tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", ["\u0120", "ab"]]},
                     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                     "decoder": {"type": "ByteLevel"},
                     "added_tokens": [{"id": 6, "content": "<end>", "special": True}, {"id": 7, "content": "<tool>"}]}
        return dict(tokenizer, **parts)

    def pieces(self, **model):
        tokens = ["<unk>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"] + [f"<0x{byte:02X}>" for byte in range(256)]
        merges = ["\u2581 a", "a b", "\u2581a b", "\u2581 ab"]
        own = dict(type="BPE", vocab={token: i for i, token in enumerate(tokens)}, merges=merges, byte_fallback=True,
                   unk_token="<unk>", fuse_unk=True)
        return {"model": dict(own, **model), "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}}

    def test_byte_level_tokens(self):
        files = {"tokenizer_config__json": json.dumps({"eos_token": "<end>", "chat_template": "{{ messages }}"})}
        target, remarks = self.export(self.with_tokenizer(self.byte_level(), **files))
        keys = Reader(target).keys
        tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
        self.assertEqual(tokens[:9], ["a", "b", "\u0120", "ab", "\u0120ab", "[PAD5]", "<end>", "<tool>", "[PAD8]"])
        self.assertEqual(types[:9], [1, 1, 1, 1, 1, 5, 3, 4, 5])
        self.assertEqual((len(tokens), len(types)), (64, 64))
        self.assertEqual(keys["tokenizer.ggml.merges"], ["a b", "\u0120 ab"])
        self.assertEqual((keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"]), ("gpt2", "gpt-2"))
        self.assertEqual(keys["tokenizer.ggml.eos_token_id"], 6)
        self.assertEqual((keys["tokenizer.ggml.add_bos_token"], keys["tokenizer.ggml.add_eos_token"]), (False, False))
        self.assertEqual(keys["tokenizer.chat_template"], "{{ messages }}")
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}},
                                                             {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [], "special_tokens": {"<end>": {"id": "<end>", "ids": [6], "tokens": ["<end>"]}}}
        keys = Reader(self.export(self.with_tokenizer(self.byte_level(post_processor=template)))[0]).keys
        self.assertEqual((keys["tokenizer.ggml.bos_token_id"], keys["tokenizer.ggml.add_bos_token"]), (6, True))

    def test_scores_of_pieces(self):
        keys = Reader(self.export(self.with_tokenizer(self.pieces(), 300))[0]).keys
        self.assertEqual(keys["tokenizer.ggml.model"], "llama")
        self.assertEqual(keys["tokenizer.ggml.scores"][4:7], [0, -1, -2])
        self.assertEqual(keys["tokenizer.ggml.token_type"][:8], [2, 1, 1, 1, 1, 1, 1, 6])
        self.assertTrue(keys["tokenizer.ggml.add_space_prefix"])
        self.assertEqual(keys["tokenizer.ggml.unknown_token_id"], 0)

    def test_tokenizers_that_are_refused(self):
        split = {"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": False}
        last = ["\u2581 a", "\u2581a b", "a b", "\u2581 ab"]
        bad = {
            "tokenizer.pre_tokenizer: cuts a text by \\w+": self.byte_level(pre_tokenizer=split),
            "add_prefix_space is true": self.byte_level(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}),
            "tokenizer.normalizer: changes texts": self.byte_level(normalizer={"type": "Lowercase"}),
            "has 8 tokens, but model.vocabulary = 7": self.byte_level(),
            "do not follow one another": self.pieces(merges=last),
            '"\u2581 ab" is no merge': self.pieces(merges=["\u2581 a", "a b", "\u2581a b"]),
            "token 8 is empty": self.byte_level(model={"type": "BPE", "vocab": {"a": 0, "": 8}, "merges": []}, added_tokens=[]),
            "merges a token without text": self.pieces(vocab=dict(self.pieces()["model"]["vocab"], **{"": 999}),
                                                       merges=[["", "a"]]),
            "is no BPE": TOKENIZERS["word piece"]["tokenizer"] if "word piece" in TOKENIZERS else next(
                each["tokenizer"] for each in TOKENIZERS.values() if each["tokenizer"]["model"].get("type") == "WordPiece"),
        }
        for part, tokenizer in bad.items():
            with self.subTest(part):
                vocabulary = 7 if "has 8" in part else 4000
                self.assertIn(part, self.export(self.with_tokenizer(tokenizer, vocabulary), status=2)[1])

    def test_bytes(self):
        config = self.work / "config.toml"
        (self.work / "text.txt").write_text("to be or not to be, " * 40)
        config.write_text(f'''
[model]
architecture = "llama"
layers = 1
hidden = 32
heads = 2
intermediate = 32
dropout = 0.0
sequence = 16
[data]
train = ["{self.work}/text.txt"]
[batch]
micro_batch = 1
[checkpoint]
directory = "{self.work}/out"
[run]
steps = 1
''')
        run(TOOLS / "l2l-train", config, "--quiet")
        keys = Reader(self.export(self.work / "out", "q8_0")[0]).keys
        self.assertEqual(len(keys["tokenizer.ggml.tokens"]), 256)
        self.assertEqual(keys["tokenizer.ggml.tokens"][ord("a")], "a")
        self.assertEqual(keys["tokenizer.ggml.tokens"][ord(" ")], "\u0120")
        self.assertEqual(keys["tokenizer.ggml.merges"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
