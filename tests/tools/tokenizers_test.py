"""l2l-tokenize against the ids and texts that the tokenizers library gave (tests/fixtures/make_tokenizer_fixtures.py).

    tokenizers_test.py TOOLS FIXTURES
"""
import gzip
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS, FIXTURES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
ALL = json.loads((FIXTURES / "tokenizers.json").read_text())
TEXTS, TOKENIZERS = ALL["texts"], ALL["tokenizers"]


CONFIG = """
[model]
architecture = "gpt2"
layers = 1
hidden = 16
heads = 2
vocabulary = {vocabulary}
sequence = 8
[data]
train = ["{data}"]
tokenizer = "{tokenizer}"
[batch]
micro_batch = 2
[checkpoint]
directory = "{out}"
[run]
steps = 2
"""


def changed(name, **parts):
    """A tokenizer with some of its parts replaced."""
    return dict(TOKENIZERS[name]["tokenizer"], **parts)


def model(name, **fields):
    return changed(name, model=dict(TOKENIZERS[name]["tokenizer"]["model"], **fields))


def split(pattern):
    return changed("byte level", pre_tokenizer={"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False})


def sentencepiece_model():
    """A unigram model in its format (Protocol Buffers): pieces with their types, of which 1 is normal, 2 unknown, 3 control, 4 user-defined."""
    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content
    pieces = (("<unk>", 2), ("<s>", 3), ("</s>", 3), ("[INST]", 3), ("[/INST]", 3), ("<u>", 4), ("\u2581", 1), ("h", 1), ("i", 1), ("\u2581hi", 1))
    model = b"".join(field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -1.0 if len(piece) > 1 else -2.0) + b"\x18" + bytes([kind]))
                     for piece, kind in pieces)
    return model + field(2, b"\x18\x01") + field(3, field(1, b"identity") + b"\x18\x01\x20\x00\x28\x01")


def nested(levels):
    part = '{"type":"Sequence","normalizers":['
    return '{"model":{},"normalizer":' + part * levels + "]}" * levels + "}"


# A pattern, how it cuts a text, and the pieces that the tokenizers library gives.
CUTS = [
    ({"Regex": r"(?<=\p{Ll})(?=\p{Lu})"}, "Isolated", "helloWorldXy", ["hello", "World", "Xy"]),
    ({"Regex": "b*"}, "Isolated", "abbcéd", ["a", "bb", "c", "é", "d"]),
    ({"Regex": "b*"}, "MergedWithPrevious", "abbcéd", ["abb", "c", "é", "d"]),
    ({"Regex": "b*"}, "MergedWithNext", "abbcéd", ["a", "bbc", "é", "d"]),
    ({"Regex": "a*|b"}, "Removed", "cabb", ["c", "b", "b"]),
    ({"String": ""}, "Isolated", "aéb", ["a", "é", "b"]),
    ({"Regex": "a{,3}"}, "Isolated", "aaaaab", ["aaa", "aa", "b"]),
    ({"Regex": "a{2,}?"}, "Isolated", "aaaab", ["aa", "aa", "b"]),
    ({"Regex": "a{x}+|a{,}"}, "Isolated", "aa{x}}ba{,}", ["a", "a{x}}", "b", "a{,}"]),
    ({"Regex": r"\x{61}+"}, "Isolated", "baab", ["b", "aa", "b"]),
    ({"Regex": "(?m)a.b"}, "Isolated", "ca\nbc", ["c", "a\nb", "c"]),
    ({"Regex": "(?im:A.)(?-m:.)|b."}, "Isolated", "a\nb\nc", ["a\nb", "\nc"]),
]
# A pattern, a text, and the text with "_" for each match.
REPLACED = [({"Regex": "x*"}, "abc", "_a_b_c_"), ({"Regex": "b*"}, "abbc", "_a_c_"), ({"Regex": "(?<=a)"}, "aab", "a_a_b"),
            ({"String": ""}, "aé", "_a_é_"), ({"String": "b"}, "abc", "a_c")]

# What is wrong, the file, and what the message says.
BAD = {
    "empty": ("", "is not JSON"),
    "not JSON": ("{", "is not JSON"),
    "not UTF-8": (b'{"model": "\xff"}', "is not JSON in UTF-8"),
    "a list": ("[]", "expected an object"),
    "no model": ({}, 'has no field "model"'),
    "model of another type": ({"model": 3}, "tokenizer.model: expected an object"),
    "unknown model": (model("byte level", type="Transducer"), 'the model "Transducer" is not supported'),
    "nested": (nested(100000), "is nested too deep"),
    "negative id": (model("byte level", vocab={"a": -1}), "expected an id from 0 to"),
    "huge id": (model("byte level", vocab={"a": 2**40}), "expected an id from 0 to"),
    "id that is no number": (model("byte level", vocab={"a": "0"}), "expected an id from 0 to"),
    "one id twice": (model("byte level", vocab={"a": 0, "b": 0}), "is that of two tokens"),
    "vocab is a list": (model("byte level", vocab=[]), "expected an object of tokens"),
    "merge of three": (model("byte level", merges=["a b c"]), "merges[0]: expected two tokens"),
    "merge of a number": (model("byte level", merges=[1]), "merges[0]: expected two tokens"),
    "merge of unknown tokens": (model("byte level", merges=[["zzzz", "y"]]), 'merges[0]: the token "zzzz" is not in the vocabulary'),
    "merge to an unknown token": (model("byte level", merges=[["Z", "Z"]]), 'the token "ZZ" is not in the vocabulary'),
    "dropout": (model("byte level", dropout=0.1), "dropout of merges is not supported"),
    "unknown token missing": (model("llama 2", unk_token="?!"), "unk_token: is not in the vocabulary"),
    "score that is no number": (model("unigram", vocab=[["a", "b"]]), "vocab[0]: expected [TOKEN, SCORE]"),
    "no pieces": (model("unigram", vocab=[]), "expected a list of tokens and their scores"),
    "unknown piece out of range": (model("unigram", unk_id=10**6), "unk_id: expected an integer from 0 to"),
    "longest word is no number": (model("word piece", max_input_chars_per_word="9"), "max_input_chars_per_word: expected an integer"),
    "normalizer": (changed("byte level", normalizer={"type": "Rot13"}), 'the normalizer "Rot13" is not supported'),
    "normalizer without type": (changed("byte level", normalizer={}), 'normalizer: has no field "type"'),
    "map not in base64": (changed("byte level", normalizer={"type": "Precompiled", "precompiled_charsmap": "?"}), "is not base64"),
    "map of nothing": (changed("byte level", normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "is not a trie"),
    "map that lies": (changed("byte level", normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w=="}), "is not a trie"),
    "pre-tokenizer": (changed("byte level", pre_tokenizer={"type": "UnicodeScripts"}), 'the pre-tokenizer "UnicodeScripts" is not supported'),
    "behavior": (changed("byte level", pre_tokenizer={"type": "Punctuation", "behavior": "Exploded"}), 'the behavior "Exploded"'),
    "regex": (split({"Regex": "(a"}), "pre_tokenizer.pattern: the regular expression (a is not one"),
    "regex with an intersection": (split({"Regex": "[a-z&&[^b]]"}), "an intersection of classes"),
    "regex with a call": (split({"Regex": "\\g<1>"}), "\\g, which is not supported"),
    "regex with a repeated interval": (split({"Regex": "a{1,2}+"}), "a '+' behind an interval (write (?:X{1,2})+)"),
    "regex with an optional interval": (split({"Regex": "a{2}?"}), "a '?' behind an interval (write (?:X{2})?)"),
    "regex with an option of others": (split({"Regex": "(?is)a.a"}), "the option s"),
    "regex with options in a branch": (split({"Regex": "a(?i)b|c"}), "options within a branch (write (?i:X))"),
    "regex with a byte": (split({"Regex": "\\xc3\\xa9"}), "a byte above \\x7f"),
    "regex with an unfinished code point": (split({"Regex": "\\x{61"}), "\\x{ without digits and '}'"),
    "pattern of nothing": (split({}), 'has no field "Regex"'),
    "prepend scheme": (changed("byte level", pre_tokenizer={"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}), 'the prepend_scheme "last"'),
    "post-processor": (changed("byte level", post_processor={"type": "Chat"}), 'the post-processor "Chat" is not supported'),
    "special token missing": (changed("byte level", post_processor={"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}], "special_tokens": {}}), 'has no field "x"'),
    "decoder": (changed("byte level", decoder={"type": "CTC"}), 'the decoder "CTC" is not supported'),
    "added token without id": (changed("byte level", added_tokens=[{"content": "x"}]), 'added_tokens[0]: has no field "id"'),
    "added token with another id": (changed("byte level", added_tokens=[{"content": "x y", "id": 10**6}]),
                                    'added_tokens[0]: "x y" has the id 1000000, but Hugging Face\'s library gives it'),
    "flag that is no flag": (changed("byte level", added_tokens=[{"content": "x", "id": 1, "lstrip": 1}]), "lstrip: expected true or false"),
}


def run(*command, status=0, text=None, **more):
    environment = dict(os.environ, **more)
    done = subprocess.run([str(part) for part in command], capture_output=True, input=text, env=environment)
    assert done.returncode == status, f"{command}: status {done.returncode}: {done.stderr.decode()}"
    return done


class Tokenizers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.folder.name)
        self.tokenizer = self.work / "tokenizer.json"

    def tearDown(self):
        self.folder.cleanup()

    def encode(self, texts, *more):
        file = self.work / "texts"
        file.write_bytes(b"".join(text.encode() + b"\0" for text in texts))
        lines = run(TOOLS / "l2l-tokenize", self.tokenizer, file, "--null", *more).stdout.decode().split("\n")
        return [list(map(int, line.split())) for line in lines[:-1]]

    def decode(self, ids, *more):
        lines = "".join(" ".join(map(str, one)) + "\n" for one in ids).encode()
        return run(TOOLS / "l2l-tokenize", self.tokenizer, "-", "--decode", "--null", *more, text=lines).stdout.decode().split("\0")[:-1]

    def test_ids_and_texts(self):
        for name, fixture in TOKENIZERS.items():
            self.tokenizer.write_text(json.dumps(fixture["tokenizer"]))
            for text, ours, theirs in zip(TEXTS, self.encode(TEXTS), fixture["ids"], strict=True):
                with self.subTest(name, text=text):
                    self.assertEqual(ours, theirs)
            with self.subTest(name, what="special tokens"):
                self.assertEqual(self.encode([TEXTS[3]], "--special"), [fixture["special"]])
            for more, key in (([], "decoded"), (["--special"], "with_special")):
                for ours, theirs, ids in zip(self.decode(fixture["ids"], *more), fixture[key], fixture["ids"], strict=True):
                    with self.subTest(name, ids=ids, key=key):
                        self.assertEqual(ours, theirs)

    def test_scores_are_read_as_the_library_does(self):
        """a b bb and a bb b are as probable; read to the last bit, the scores would make the second the better one."""
        vocabulary = [["<unk>", 0.0], ["a", -3.670139708973744], ["b", -6.58182973288012], ["bb", -3.9001979951054198]]
        self.tokenizer.write_text(json.dumps({"model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary}}))
        self.assertEqual(self.encode(["abbb"]), [[1, 2, 3]])

    def test_vocabulary_files(self):
        fixture = TOKENIZERS["byte level"]
        parts = self.work / "parts"
        parts.mkdir()
        (parts / "vocab.json").write_text(json.dumps(fixture["tokenizer"]["model"]["vocab"]))
        (parts / "merges.txt").write_text("#version: 0.2\n" + "".join(
            " ".join(merge) + "\n" for merge in fixture["tokenizer"]["model"]["merges"]))
        self.tokenizer = parts
        self.assertEqual(self.encode(TEXTS), fixture["ids"])
        fixture = TOKENIZERS["word piece"]
        names = {"<unk>": "[UNK]", "<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]"}  # of BERT
        vocabulary = sorted(fixture["tokenizer"]["model"]["vocab"].items(), key=lambda entry: entry[1])
        self.tokenizer = self.work / "vocab.txt"
        self.tokenizer.write_text("".join(names.get(token, token) + "\n" for token, _ in vocabulary))
        texts = [(text, ids) for text, ids in zip(TEXTS, fixture["ids"]) if "<" not in text and "[" not in text and "aaaa" not in text]
        self.assertEqual(self.encode([text for text, _ in texts]), [ids for _, ids in texts])

    def write_words(self, words, **parts):
        """A tokenizer whose tokens are these words; a word's id is its place."""
        vocabulary = {word: i for i, word in enumerate(words)}
        self.tokenizer.write_text(json.dumps(dict(parts, model={"type": "WordLevel", "unk_token": "", "vocab": vocabulary})))

    def test_cuts_of_patterns(self):
        for pattern, behavior, text, pieces in CUTS:
            words = sorted({text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)})
            self.write_words(words, pre_tokenizer={"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False})
            with self.subTest(pattern, behavior=behavior):
                self.assertEqual([words[i] for i in self.encode([text])[0]], pieces)

    def test_replacements(self):
        for pattern, text, replaced in REPLACED:
            self.write_words([text], decoder={"type": "Replace", "pattern": pattern, "content": "_"})
            with self.subTest(pattern, text=text):
                self.assertEqual(self.decode([[0]]), [replaced])

    def test_the_last_of_equal_added_tokens_counts(self):
        tokens = [{"content": "<x>", "id": 2, **flags} for flags in ({"special": True}, {"lstrip": True})]
        self.write_words(["a", " "], added_tokens=tokens)
        self.assertEqual(self.encode(["a <x>a"]), [[0, 2, 0]])
        self.assertEqual(self.decode([[0, 2]]), ["a"])  # special it stays

    def test_settings_beside_vocabularies(self):
        fixture = TOKENIZERS["byte level"]
        model = fixture["tokenizer"]["model"]
        added = len(model["vocab"])
        merged = "".join(" ".join(merge) + "\n" for merge in model["merges"])

        def configure(name, files, **config):
            self.tokenizer = self.work / name
            self.tokenizer.mkdir(exist_ok=True)
            for file, text in dict(files, **{"tokenizer_config.json": json.dumps(config)}).items():
                (self.tokenizer / file).write_text(text)

        def refused():
            return run(TOOLS / "l2l-tokenize", self.tokenizer, "-", status=2, text=b"the").stderr.decode()

        files, more = {"vocab.json": json.dumps(model["vocab"]), "merges.txt": merged}, {"content": "<ent>", "special": True}
        configure("bpe", files)
        the, spaced, before = self.encode(["the", " the", "</s>"])
        configure("bpe", files, tokenizer_class="GPT2TokenizerFast", add_prefix_space=True, add_bos_token=True,
                  bos_token={"content": "</s>"}, added_tokens_decoder={str(added): more})
        self.assertEqual(self.encode(["the", "<ent>the"], "--special"), [before + spaced, before + [added] + spaced])
        self.assertGreater(len(self.encode(["<s>"])[0]), 1)  # RoBERTa's only
        configure("bpe", files, tokenizer_class="BartTokenizer")
        self.assertEqual(self.encode(["the<s>"], "--special"), [[1] + the + [1, 2]])
        configure("bpe", files, tokenizer_class="Qwen2Tokenizer")
        self.assertIn('tokenizer_config: tokenizer_class: "Qwen2Tokenizer" makes more of the vocabulary', refused())
        self.assertIn("AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)", refused())
        configure("bpe", files, added_tokens_decoder={str(added + 1): more})
        self.assertIn(f'added_tokens_decoder: "<ent>" has the id {added + 1}, but Hugging Face\'s library gives it {added}', refused())

        files = {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n<\nent\n>\n"}
        configure("words", files, tokenizer_class="DistilBertTokenizer", added_tokens_decoder={"9": more})
        self.assertEqual(self.encode(["The <ent>the"]), [[5, 9, 5]])
        configure("words", files, tokenizer_class="MPNetTokenizer")
        self.assertIn('tokenizer_class: "MPNetTokenizer" makes more', refused())

    def test_special_tokens_of_sentencepiece(self):
        folder = self.work / "sentencepiece"
        folder.mkdir()
        self.tokenizer = folder / "tokenizer.model"
        self.tokenizer.write_bytes(sentencepiece_model())
        probe = subprocess.run([str(TOOLS / "l2l-tokenize"), str(self.tokenizer), "-"], input=b"hi", capture_output=True)
        if b"SentencePiece" in probe.stderr:
            self.skipTest(probe.stderr.decode())
        # Ids by the definition of the model: of text between special tokens as of text alone.
        text, ids = "<s>[INST] hi [/INST]hi</s>", [1, 3, 6, 9, 6, 4, 9, 2]
        self.assertEqual(self.encode([text, "hi hi", "hi<u>hi"]), [ids, [9, 9], [9, 5, 7, 8]])
        self.assertEqual(self.decode([ids]), [" hi  hi"])
        self.assertEqual(self.decode([ids], "--special"), [text])
        # Tokens that were added to the model, by the file of older directories.
        def added(status=0, **tokens):
            (folder / "added_tokens.json").write_text(json.dumps(tokens))
            return run(TOOLS / "l2l-tokenize", self.tokenizer, "-", text=b"hi hello hi<s>", status=status)
        self.assertEqual(added(hello=12, **{"<s>": 1}).stdout.split(), b"9 6 12 6 9 1".split())
        for says, tokens in ((b'"hi" has the id 10', {"\u2581hi": 10}), (b'"x" has the id 7, which is one', {"x": 7})):
            self.assertIn(says, added(status=2, **tokens).stderr.replace("\u2581".encode(), b""))
        # By tokenizer_config.json, which counts, and the end of a document.
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "added_tokens_decoder": {
            "2": {"content": "</s>", "special": True}, "10": {"content": "<|im_end|>", "special": True}, "11": {"content": "hello", "rstrip": True}}}))
        self.assertEqual(self.encode(["hi<|im_end|>hello hi</s>"]), [[9, 10, 11, 9, 2]])
        self.assertEqual(self.decode([[9, 10, 11, 9]]), ["hihellohi"])
        self.assertEqual(self.decode([[9, 10, 11, 9]], "--special"), ["hi<|im_end|>hellohi"])
        (self.work / "text").write_text("hi " * 30)
        self.train("--set", 'data.separator="|"')
        kept = next(file for file in (self.work / "cache/l2l/tokens").iterdir() if file.suffix == ".u16").read_bytes()
        self.assertEqual(struct.unpack(f"<{len(kept) // 2}H", kept)[-2:], (6, 2))

    def test_a_real_vocabulary(self):
        if not os.environ.get("L2L_TEST_DATA"):
            self.skipTest("L2L_TEST_DATA is not set")
        found = []
        for name in ("minilm/tokenizer.json", "minilm/vocab.txt", "minilm"):
            self.tokenizer = pathlib.Path(os.environ["L2L_TEST_DATA"]) / name
            found.append(self.encode(TEXTS, "--special"))
        self.assertEqual(found[0][3], [101, 7592, 1010, 2088, 999, 102])
        self.assertEqual(found[1:], found[:1] * 2)

    def test_lines_that_hold_no_ids(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["byte level"]["tokenizer"]))
        file = self.work / "ids"
        for text, says in (("1 2\n3 -5\n", "line 2: token id -5 stands for nothing"), ("99999", "line 1: token id 99999 stands for nothing"),
                           ("1\n1-2\n", "line 2: expected token ids"), ("1 99999999999", "but word 2 is none"), ("-", "but word 1 is none")):
            file.write_text(text)
            with self.subTest(text):
                self.assertIn(f"{file}: ", message := run(TOOLS / "l2l-tokenize", self.tokenizer, file, "--decode", status=2).stderr.decode())
                self.assertIn(says, message)
        file.write_text(" 1\t2 \r\n")
        self.assertEqual(run(TOOLS / "l2l-tokenize", self.tokenizer, file, "--decode", "--null").stdout.decode()[:-1], self.decode([[1, 2]])[0])
        refused = run(TOOLS / "l2l-tokenize", self.tokenizer, file, "--decode", "--threads", 3, status=2)
        self.assertIn(b"leave --threads away", refused.stderr)

    def test_what_is_not_utf8(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["byte level"]["tokenizer"]))
        file, lines = self.work / "bytes", []
        for raw in (b"a\xe2\x82z\xff", "a\ufffdz\ufffd".encode()):
            file.write_bytes(raw)
            lines.append(run(TOOLS / "l2l-tokenize", self.tokenizer, file).stdout)
        self.assertEqual(lines[0], lines[1])

    def test_shards(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        files, shard = [], self.work / "shard.bin"
        for i, text in enumerate(TEXTS):
            files.append(self.work / str(i))
            files[-1].write_text(text, newline="")
        run(TOOLS / "l2l-tokenize", self.tokenizer, *files, "--output", shard)
        data, about = shard.read_bytes(), json.loads((self.work / "shard.bin.json").read_text())
        ids = TOKENIZERS["gpt-4"]["ids"]
        self.assertEqual(list(struct.unpack(f"<{len(data) // 2}H", data)), sum(ids, []))
        self.assertEqual((about["dtype"], about["tokens"]), ("uint16", len(data) // 2))
        self.assertEqual(about["document_ends"], [len(sum(ids[:i + 1], [])) for i in range(len(ids))])

    def train(self, *more, status=0, vocabulary=500):
        config = self.work / "config.toml"
        config.write_text(CONFIG.format(data=self.work / "text", tokenizer=self.tokenizer, out=self.work / "run", vocabulary=vocabulary))
        done = run(TOOLS / "l2l-train", config, *more, status=status, XDG_CACHE_HOME=str(self.work / "cache"))
        return done.stdout.decode(), done.stderr.decode()

    def test_training_on_text(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        first, messages = self.train()
        self.assertIn(f"tokenizing {self.work / 'text'}", messages)
        kept = list((self.work / "cache/l2l/tokens").iterdir())
        self.assertEqual(sorted(file.suffix for file in kept), [".documents", ".hashes", ".labels", ".u16"])
        data = next(file for file in kept if file.suffix == ".u16").read_bytes()
        self.assertEqual([list(struct.unpack(f"<{len(data) // 2}H", data))], self.encode([" ".join(TEXTS)], "--special"))
        # Again: from the cache, also where the tokenizer has gone and the checkpoint carries it along.
        second, messages = self.train("--set", "checkpoint.directory=" + str(self.work / "again"))
        self.assertNotIn("tokenizing", messages)
        hashes = [json.loads(out.splitlines()[-1])["weights_hash"] for out in (first, second)]
        self.assertEqual(hashes[0], hashes[1])
        self.tokenizer.unlink()
        text = run(TOOLS / "l2l-sample", self.work / "again", "--prompt", "The quick", "--tokens", 3).stdout.decode()
        self.assertTrue(text.startswith("The quick"), text)

    def test_a_shard_is_whole_or_not_there(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        text, missing, shard = self.work / "texts", self.work / "none", self.work / "shard"
        text.write_text(" ".join(TEXTS), newline="")
        before = set(self.work.iterdir())
        run(TOOLS / "l2l-tokenize", self.tokenizer, text, missing, "--output", shard, status=2)
        self.assertEqual(set(self.work.iterdir()), before)
        killed = subprocess.Popen([TOOLS / "l2l-tokenize", self.tokenizer, text, "-", "--output", shard], stdin=subprocess.PIPE)
        begin = time.monotonic()
        while not list(self.work.glob("shard.tmp-*")) and time.monotonic() - begin < 20:
            time.sleep(0.01)
        killed.kill()
        killed.communicate()
        self.assertTrue(list(self.work.glob("shard.tmp-*")))
        self.assertFalse(shard.exists())
        for _ in range(2):
            run(TOOLS / "l2l-tokenize", self.tokenizer, text, "--output", shard)
            self.assertGreater(shard.stat().st_size, 100)

    def test_a_shard_beyond_the_limit_on_file_sizes_leaves_nothing(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        text = self.work / "texts"
        text.write_text(" ".join(TEXTS) * 200, newline="")
        before = set(self.work.iterdir())
        done = subprocess.run([TOOLS / "l2l-tokenize", self.tokenizer, text, "--output", self.work / "shard"], capture_output=True,
                              text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot be written: File too large", done.stderr)
        self.assertEqual(set(self.work.iterdir()), before)

    def test_compressed_texts_and_rows(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        plain, rows = self.work / "text", self.work / "rows.jsonl"
        plain.write_text(" ".join(TEXTS), newline="")
        rows.write_text(json.dumps({"text": "a"}) + "\n")
        compressed = self.work / "text.gz"
        compressed.write_bytes(gzip.compress(plain.read_bytes()))
        done = run(TOOLS / "l2l-tokenize", self.tokenizer, plain)
        self.assertEqual(done.stderr, b"")
        self.assertEqual(run(TOOLS / "l2l-tokenize", self.tokenizer, compressed).stdout, done.stdout)
        self.assertIn(f"{rows}: is tokenized as plain text", run(TOOLS / "l2l-tokenize", self.tokenizer, rows).stderr.decode())

    def test_training_on_shards(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        texts, shard, about = self.work / "texts", self.work / "text", self.work / "text.json"
        texts.write_text(" ".join(TEXTS), newline="")
        run(TOOLS / "l2l-tokenize", self.tokenizer, texts, "--output", shard)
        fresh = lambda: ["--set", f'checkpoint.directory="{self.work / str(time.monotonic_ns())}"']
        hash_of = lambda out: json.loads(out.splitlines()[-1])["weights_hash"]
        out, messages = self.train(*fresh(), "--set", 'data.format="tokens"')
        self.assertNotIn("tokenizer", messages)
        by_name, messages = self.train(*fresh())
        self.assertNotIn("is read as text", messages)
        self.assertEqual(hash_of(by_name), hash_of(out))
        _, messages = self.train(*fresh(), "--set", 'data.format="tokens32"', status=2)
        self.assertIn(f'{shard}: its ids are uint16, as {about} says, but data.format = "tokens32"; set "auto"', messages)
        self.tokenizer.write_text(json.dumps(TOKENIZERS["byte level"]["tokenizer"]))
        _, messages = self.train(*fresh())
        self.assertIn(f"{shard}: its ids are of another tokenizer than data.tokenizer", messages)
        _, messages = self.train(*fresh(), "--set", 'data.tokenizer="bytes"')
        self.assertNotIn("another tokenizer", messages)

    def test_a_chat_template_of_plain_text_is_warned_of(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        warning = f'{self.work / "text"}: has no conversations, for which data.template = "chatml" would be'
        self.assertIn(warning, self.train("--set", 'data.template="chatml"')[1])
        self.assertNotIn("has no conversations", self.train()[1])

    def test_a_damaged_cache_is_made_again(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        expected = self.train()[0].splitlines()[-1]
        folder = self.work / "cache/l2l/tokens"
        whole = {file: file.read_bytes() for file in folder.iterdir()}
        ids = next(file for file in whole if file.suffix == ".u16")
        ends, hashes = pathlib.Path(f"{ids}.documents"), pathlib.Path(f"{ids}.hashes")
        for file, damage in ((ids, whole[ids][:100]), (ids, whole[ids][:-1] + bytes([whole[ids][-1] ^ 1])),
                             (ends, b"\xff" * 7 + b"\x7f"), (ends, b"abc"), (hashes, None)):
            file.unlink() if damage is None else file.write_bytes(damage)
            with self.subTest(file.suffix, damage=damage):
                out, messages = self.train("--set", f'checkpoint.directory="{self.work / str(time.monotonic_ns())}"')
                self.assertIn(f"{ids}: is not as it was written", messages)
                self.assertEqual(json.loads(out.splitlines()[-1])["weights_hash"], json.loads(expected)["weights_hash"])
                self.assertEqual({file: file.read_bytes() for file in folder.iterdir()}, whole)

    def test_tokens_follow_a_text_whose_time_was_set_back(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        text, hashes = self.work / "text", set()
        for letters in ("abc", "abd"):
            before = text.stat() if text.exists() else None
            with open(text, "r+" if before else "w") as file:
                file.write(" ".join([letters] * 500))
            if before:
                os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
            out, _ = self.train("--set", f'checkpoint.directory="{self.work / letters}"')
            hashes.add(json.loads(out.splitlines()[-1])["weights_hash"])
        self.assertEqual(len(hashes), 2)

    def test_tokens_follow_the_settings_beside_the_tokenizer(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        folder, kept, lasts = self.work / "cache/l2l/tokens", set(), []
        for end in "ab":
            (self.work / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
            self.train("--set", f'checkpoint.directory="{self.work / end}"')
            ids, = (file.read_bytes() for file in folder.iterdir() if file.suffix == ".u16" and file not in kept)
            kept |= set(folder.iterdir())
            lasts.append([struct.unpack("<H", ids[-2:])[0]])
        self.assertEqual(lasts, self.encode(["a", "b"]))

    def test_a_checkpoint_has_what_is_read_beside_a_vocabulary(self):
        folder = self.work / "words"
        folder.mkdir()
        self.tokenizer = folder / "vocab.txt"
        files = {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", "tokenizer_config.json": "{}", "added_tokens.json": '{"<x>": 6}'}
        for name, text in files.items():
            (folder / name).write_text(text)
        (self.work / "text").write_text("a <x> " * 30)
        self.train()
        checkpoint, = (self.work / "run").glob("step-*")
        self.assertEqual({name: (checkpoint / name).read_text() for name in files}, files)

    def test_what_killed_processes_left_in_the_cache_goes(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        folder = self.work / "cache/l2l/tokens"
        folder.mkdir(parents=True)
        ended = subprocess.Popen(["true"])
        ended.wait()
        stale, new, running = (folder / f"{name}.u16.tmp-{process}" for name, process in
                               (("a", ended.pid), ("b", ended.pid), ("c", os.getpid())))
        for file in (stale, new, running):
            file.write_bytes(b"")
        for file in (stale, running):
            os.utime(file, (0, 0))
        self.train()
        self.assertEqual([file.exists() for file in (stale, new, running)], [False, True, True])

    def test_a_cache_that_cannot_be_made_is_named(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        (self.work / "cache").write_text("no directory")
        _, messages = self.train(status=2)
        self.assertIn("data.tokenizer: there is no place to keep tokens in: ", messages)
        self.assertIn("set XDG_CACHE_HOME to a directory that can be written", messages)

    def test_training_says_what_does_not_fit(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["gpt-4"]["tokenizer"]))
        (self.work / "text").write_text(" ".join(TEXTS), newline="")
        _, messages = self.train(status=2, vocabulary=300)
        self.assertRegex(messages, r"text: data.tokenizer gives it the token \d+, which is not below model.vocabulary = 300")
        self.tokenizer.unlink()
        _, messages = self.train(status=2)
        self.assertIn("data.tokenizer: " + str(self.tokenizer) + ": there is no such file", messages)

    def test_bad_files(self):
        for what, (content, message) in BAD.items():
            with self.subTest(what):
                raw = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
                self.tokenizer.write_bytes(raw)
                begin = time.monotonic()
                done = run(TOOLS / "l2l-tokenize", self.tokenizer, "-", "--output", self.work / "shard", status=2, text=b"some text")
                self.assertLess(time.monotonic() - begin, 2)
                self.assertIn(message, done.stderr.decode())
                self.assertIn(str(self.tokenizer), done.stderr.decode())
                self.assertFalse((self.work / "shard").exists())

    def test_a_regular_expression_that_explodes(self):
        self.tokenizer.write_text(json.dumps(split({"Regex": "(a+)+$"})))
        begin = time.monotonic()
        done = run(TOOLS / "l2l-tokenize", self.tokenizer, "-", status=2, text=b"a" * 5000 + b"b")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("the regular expression (a+)+$ takes too long on this text", done.stderr.decode())

    def test_a_long_word_is_not_quadratic(self):
        self.tokenizer.write_text(json.dumps(TOKENIZERS["byte level, no regex"]["tokenizer"]))
        begin = time.monotonic()
        done = run(TOOLS / "l2l-tokenize", self.tokenizer, "-", text=b"the cat sat on the mat " * 100000)
        self.assertLess(time.monotonic() - begin, 100 if os.environ.get("L2L_SANITIZED") == "1" else 20)
        self.assertGreater(len(done.stdout.split()), 100000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
