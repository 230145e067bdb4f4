"""Models of every family from Hugging Face directories: logits and ten AdamW steps are those of transformers and PyTorch
(tests/fixtures/make_hub_fixtures.py); what is exported is what was read; relay, resident execution and recomputation
give the same bits.

    hub_models_test.py FOLDER_OF_THE_TOOLS FOLDER_OF_THE_FIXTURES
"""
import json
import math
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TOOLS, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(FIXTURES))
import hub_files  # noqa: E402

MODELS = json.loads((FIXTURES / "hub_models.json").read_text())

ARCHITECTURES = ("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3")

CONFIG = """
[model]
pretrained = "{model}"
sequence = {sequence}
dropout = 0.0
[data]
train = ["{data}"]
format = "tokens32"
[precision]
compute = "fp32"
[batch]
micro_batch = 1
micro_batches = 1
[optimizer]
learning_rate = 2e-3
weight_decay = 0.0
[checkpoint]
directory = "{out}"
[run]
steps = {steps}
"""

LLAMA_8B = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
            "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                     "original_max_position_embeddings": 8192, "rope_type": "llama3"}}
# Published shapes, and the published numbers of parameters.
PUBLISHED = {
    "Llama-3.1-8B": (LLAMA_8B, 8030261248),
    "Llama-3.1-70B": (dict(LLAMA_8B, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
                           num_attention_heads=64), 70553706496),
    "Qwen3-32B": ({"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
                   "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
                   "max_position_embeddings": 40960, "rope_theta": 1000000}, 32762123264),
    "Gemma-3-27B": ({"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
                     "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 262208,
                     "query_pre_attn_scalar": 168, "sliding_window": 1024,
                     "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, 27009346304),
}

# Each feature, changed so that a model which has it must differ: a model, a key of its config, another value.
CONTROLS = [
    ("mistral", "sliding_window", 8),
    ("qwen2-window", "layer_types", ["sliding_attention"] * 2),
    ("qwen3", "rms_norm_eps", 1e-2),
    ("gemma2", "attn_logit_softcapping", 40.0),
    ("gemma2", "final_logit_softcapping", 29.0),
    ("gemma2", "query_pre_attn_scalar", 25),
    ("gemma2", "layer_types", ["full_attention", "sliding_attention"] * 2),
    ("gemma2", "hidden_activation", "gelu"),
    ("gemma3", "rope_parameters", {"full_attention": {"rope_theta": 10000.0}, "sliding_attention": {"rope_theta": 1e6}}),
    ("gemma3-linear", "layer_types", ["full_attention"] * 3),
    ("llama-linear", "rope_parameters", {"rope_type": "linear", "factor": 3.9, "rope_theta": 10000.0}),
    ("llama-dynamic", "max_position_embeddings", 17),
    ("llama-llama3", "rope_parameters", {"rope_type": "llama3", "factor": 7.0, "low_freq_factor": 1.0, "rope_theta": 10000.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
    ("llama-yarn", "rope_parameters", {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0,
                                       "original_max_position_embeddings": 4096}),
    ("llama-yarn", "rope_parameters", {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "attention_factor": 1.0,
                                       "original_max_position_embeddings": 32}),
    ("gpt2-untied", "activation_function", "gelu_new"),
    ("roberta", "pad_token_id", 2),
]


def run(*command, status=0, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment)
    assert done.returncode == status, f"{command}: status {done.returncode}: {done.stderr}"
    return done


def relative(ours, theirs):
    apart = sum((a - b) ** 2 for a, b in zip(ours, theirs))
    return (apart / sum(b * b for b in theirs)) ** 0.5


class HubModels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def model(self, name, **changed):
        fixture = MODELS[name]
        folder = self.work / f"model{len(list(self.work.iterdir()))}"
        hub_files.write_model(folder, dict(fixture["config"], **changed), fixture["shapes"])
        return folder

    def logits(self, folder, name, *more):
        ids = self.work / "ids.txt"
        ids.write_text(" ".join(map(str, MODELS[name]["ids"])))
        run(TOOLS / "l2l-eval", folder, "--tokens", ids, "--logits", self.work / "logits.npy", *more)
        numbers, shape = hub_files.read_npy(self.work / "logits.npy")
        self.assertEqual(shape, (len(MODELS[name]["ids"]), MODELS[name]["config"]["vocab_size"]))
        return numbers

    def test_logits(self):
        for name, fixture in MODELS.items():
            folder = self.model(name)
            for more in ([], ["--set", "model.attention=core"], ["--set", "transfer.vocabulary_chunk=8"]):
                with self.subTest(name, more=more):
                    self.assertLess(relative(self.logits(folder, name, *more), fixture["logits"]), 1e-5)

    def test_logits_in_bf16(self):
        for name, fixture in MODELS.items():
            with self.subTest(name):
                error = relative(self.logits(self.model(name), name, "--set", "precision.compute=bf16"), fixture["logits"])
                self.assertLess(error, 0.05)

    def test_a_feature_that_is_off_is_seen(self):
        for name, key, value in CONTROLS:
            with self.subTest(name, key=key):
                folder = self.model(name, **{key: value})
                self.assertGreater(relative(self.logits(folder, name), MODELS[name]["logits"]), 1e-5)

    def test_hidden_states_and_pooler(self):
        encoders = [name for name, fixture in MODELS.items() if "base" in fixture]
        self.assertEqual(len(encoders), 3)
        for name in encoders:
            base = MODELS[name]["base"]
            with self.subTest(name):
                folder, ids = self.work / name, self.work / "ids.txt"
                config = dict(MODELS[name]["config"], vocab_size=base["vocabulary"])
                hub_files.write_model(folder, config, base["shapes"])
                ids.write_text(" ".join(map(str, base["ids"])))
                wanted = ["--tokens", ids, "--hidden", self.work / "hidden.npy", "--pooled", self.work / "pooled.npy"]
                self.assertIn("model.new_head", run(TOOLS / "l2l-eval", folder, *wanted, status=2).stderr)
                run(TOOLS / "l2l-eval", folder, *wanted, "--set", "model.new_head=true")
                for array, length in (("hidden", len(base["ids"])), ("pooled", 1)):
                    numbers, shape = hub_files.read_npy(self.work / f"{array}.npy")
                    self.assertEqual(shape, (length, config["hidden_size"]))
                    self.assertLess(relative(numbers, base[array]), 1e-5)
        refused = run(TOOLS / "l2l-eval", self.model("gpt2"), "--tokens", ids, "--pooled", self.work / "no.npy", status=2)
        self.assertIn("has no pooler: there is no tensor pooler.dense.weight", refused.stderr)
        run(TOOLS / "l2l-train", self.config("gpt2", "run", 1), "--quiet")
        refused = run(TOOLS / "l2l-eval", self.work / "run", "--tokens", ids, "--pooled", self.work / "no.npy", status=2)
        self.assertIn("run/step-00000001: has no pooler", refused.stderr)

    def test_a_head_for_classes(self):
        """Drawn afresh over pretrained weights, trained, exported and read again."""
        if not os.environ.get("L2L_TEST_DATA"):
            self.skipTest("L2L_TEST_DATA is not set")
        data = pathlib.Path(os.environ["L2L_TEST_DATA"])
        rows = (data / "reviews/movies_dev.tsv").read_text().splitlines(keepends=True)
        each = [[row for row in rows if row.endswith(f"\t{label}\n")][:20] for label in (0, 1)]
        (self.work / "rows.tsv").write_text("".join([rows[0], *each[0], *each[1]]))
        config = self.work / "config.toml"
        config.write_text(f'''
[model]
pretrained = "{data / "minilm"}"
head = "classification"
sequence = 24
[data]
train = ["{self.work / "rows.tsv"}"]
columns = ["sentence"]
label = "label"
samples = "padded"
[precision]
compute = "fp32"
[batch]
micro_batch = 4
[optimizer]
learning_rate = 1e-5
[checkpoint]
directory = "{self.work / "out"}"
[run]
steps = 2
''')
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")}
        run(TOOLS / "l2l-train", config, "--quiet", environment=environment)
        run(TOOLS / "l2l-export", self.work / "out", self.work / "exported")
        written = json.loads((self.work / "exported/config.json").read_text())
        self.assertEqual(written["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(written["id2label"], {"0": "LABEL_0", "1": "LABEL_1"})
        more = ["--data", self.work / "rows.tsv", "--set", "data.columns=[\"sentence\"]", "--set", "data.label=label"]
        losses = [json.loads(run(TOOLS / "l2l-eval", place, *more, "--sequence", 24, environment=environment).stdout.splitlines()[-1])
                  for place in (self.work / "out", self.work / "exported")]
        self.assertAlmostEqual(losses[0]["loss"], losses[1]["loss"], places=9)  # microbatches of another size
        self.assertEqual(losses[0]["samples"], 40)
        self.assertAlmostEqual(losses[0]["loss"], 0.69, delta=0.1)
        refused = run(TOOLS / "l2l-train", config, "--set", "data.label=\"class\"", status=2, environment=environment)
        self.assertIn('there is no column "class" among "sentence", "label"; set data.label', refused.stderr)

    def test_one_plus_weight_is_not_the_weight(self):
        """Gemma's norms multiply by 1 + weight: with weights that are 1 larger, logits must differ."""
        for name in ("gemma2", "gemma3"):
            with self.subTest(name):
                folder, fixture = self.model(name), MODELS[name]
                tensors = {}
                for tensor, shape in fixture["shapes"].items():
                    numbers = hub_files.weights(fixture["config"]["model_type"], tensor, shape)
                    tensors[tensor] = (shape, [1 + number for number in numbers] if len(shape) == 1 else numbers)
                hub_files.write_safetensors(folder / "model.safetensors", tensors)
                self.assertGreater(relative(self.logits(folder, name), fixture["logits"]), 1e-2)

    def test_the_head_of_roberta_is_exact(self):
        """transformers compute RoBERTa's head by the exact GELU whatever hidden_act says of blocks, BERT's by hidden_act. Blocks
        whose second product is 0 do not tell one from the other."""
        for name in ("roberta", "bert"):
            logits = []
            for activation in ("gelu", "gelu_new"):
                folder, shapes = self.model(name, hidden_act=activation), MODELS[name]["shapes"]
                tensors = {tensor: (shape, hub_files.weights(name, tensor, shape)) for tensor, shape in shapes.items()}
                for tensor, (shape, numbers) in tensors.items():
                    if tensor.endswith("output.dense.weight") and "attention" not in tensor:
                        tensors[tensor] = (shape, [0.0] * len(numbers))
                hub_files.write_safetensors(folder / "model.safetensors", tensors)
                logits.append(self.logits(folder, name))
            with self.subTest(name):
                self.assertEqual(logits[0] == logits[1], name == "roberta")

    def config(self, name, out, steps):
        fixture = MODELS[name]
        data = self.work / "tokens.bin"
        data.write_bytes(struct.pack(f"<{len(fixture['trained'])}I", *fixture["trained"]))
        config = self.work / "config.toml"
        config.write_text(CONFIG.format(model=self.model(name), data=data, out=self.work / out, steps=steps,
                                        sequence=len(fixture["trained"]) - 1))
        return config

    def test_ten_steps(self):
        for name, fixture in MODELS.items():
            if "losses" not in fixture:
                continue
            with self.subTest(name):
                metrics = self.work / f"{name}.jsonl"
                run(TOOLS / "l2l-train", self.config(name, name, 10), "--metrics", metrics, "--quiet")
                ours = [json.loads(line)["loss"] for line in metrics.read_text().splitlines() if '"loss"' in line]
                for step, (a, b) in enumerate(zip(ours, fixture["losses"], strict=True)):
                    self.assertLess(abs(a - b) / b, 1e-5 if step == 0 else 1e-4, f"step {step + 1}")

    def test_every_way_to_run_gives_the_same_bits(self):
        ways = ([], ["device.execution=resident"], ["recompute.policy=none"], ["recompute.policy=min_cut"],
                ["transfer.stash=host", "transfer.prefetch=2"], ["eps.threads=1", "optimizer.update=after_backward"],
                ["recompute.policy=full", "transfer.stash=device", "transfer.resident_layers=2"])
        for name in ARCHITECTURES:
            config, hashes = self.random_model(name, 4), set()
            for way in ways:
                settings = [part for setting in way for part in ("--set", setting)]
                done = run(TOOLS / "l2l-train", config, "--steps", 3, "--quiet", *settings)
                hashes.add(json.loads(done.stdout.splitlines()[-1])["weights_hash"])
            with self.subTest(name):
                self.assertEqual(len(hashes), 1)

    def test_device_memory_does_not_depend_on_depth(self):
        for name in ARCHITECTURES:
            peaks = []
            for layers, stash in ((12, "host"), (60, "host"), (60, "device")):
                done = run(TOOLS / "l2l-train", self.random_model(name, layers), "--steps", 2, "--quiet", "--set",
                           f"transfer.stash={stash}", "--set", "recompute.policy=full")  # "auto" may keep more
                peaks.append(json.loads(done.stdout.splitlines()[-1])["device_peak_bytes"])
            with self.subTest(name):
                self.assertEqual(peaks[0], peaks[1])
                self.assertGreater(peaks[2], peaks[1])  # a stash on the device does depend on it

    def random_model(self, architecture, layers):
        """A config of random weights, with every feature of the architecture."""
        rotary = architecture not in ("gpt2", "bert", "roberta")
        model = {"architecture": architecture, "layers": layers, "hidden": 32, "heads": 4, "vocabulary": 300, "sequence": 16,
                 "dropout": 0.0 if rotary else 0.1}
        if rotary:
            model.update(kv_heads=2, head_dim=16, rope_scaling="yarn", rope_factor=4.0, rope_original_positions=8)
        if rotary and architecture != "llama":
            model.update(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
        if architecture in ("llama", "qwen3"):
            model.update(attention_bias=True)
        if architecture.startswith("gemma"):
            model.update(logit_softcap=3.0, query_scale=24.0)
        if architecture == "gemma2":
            model.update(attention_softcap=5.0)
        data = self.work / "data.txt"
        data.write_text("To be, or not to be, that is the question. " * 9)
        config = self.work / "random.toml"
        config.write_text("[model]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in model.items()) +
                          f'[data]\ntrain = ["{data}"]\n[batch]\nmicro_batch = 1\nmicro_batches = 2\n'
                          f'[checkpoint]\ndirectory = "{self.work / "random"}"\n')
        return config

    def test_export_gives_back_what_was_read(self):
        for name, fixture in MODELS.items():
            folder = self.model(name)
            for number, source in enumerate((folder, self.work / f"{name}-0")):
                out = self.work / f"{name}-{number}"
                run(TOOLS / "l2l-export", source, out, "--max-shard-size", "10KB", "--quiet")
                with self.subTest(name, number=number):
                    index = json.loads((out / "model.safetensors.index.json").read_text())
                    self.assertEqual(set(index["weight_map"]), set(fixture["shapes"]))
                    self.assertEqual(self.logits(out, name), self.logits(folder, name))
            for dtype in ("bf16", "fp16"):
                out = self.work / f"{name}-{dtype}"
                run(TOOLS / "l2l-export", folder, out, "--dtype", dtype, "--max-shard-size", "0", "--quiet")
                self.assertTrue((out / "model.safetensors").exists())
                self.assertLess(relative(self.logits(out, name), fixture["logits"]), 0.05)

    def test_an_export_beyond_the_limit_on_file_sizes_leaves_nothing(self):
        folder = self.model("llama")
        before = set(self.work.iterdir())
        for form in ("hf", "gguf"):
            done = subprocess.run([TOOLS / "l2l-export", folder, self.work / "out", "--format", form, "--quiet"], capture_output=True,
                                  text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
            with self.subTest(form):
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cannot be written: File too large", done.stderr)
                self.assertEqual(set(self.work.iterdir()), before)

    def test_what_killed_exports_left_is_removed(self):
        folder = self.model("llama")
        no_process, running = 999999999, os.getpid()
        for form in ("hf", "gguf"):
            out = self.work / form
            stale, alive, others = (self.work / f".{name}" for name in
                                    (f"{form}.tmp-{no_process}", f"{form}.tmp-{running}", f"{form}2.tmp-{no_process}"))
            for left in (stale, alive, others):
                left.mkdir()
                (left / "model.safetensors").write_text("half")
            file = self.work / f".{form}.tmp-{no_process - 1}"
            file.write_text("half")
            run(TOOLS / "l2l-export", folder, f"{out}/", "--format", form, "--quiet")  # as shells complete names
            with self.subTest(form):
                self.assertTrue(out.exists())
                self.assertFalse(stale.exists() or file.exists())
                self.assertTrue(alive.exists() and others.exists())

    def test_a_manifest_of_another_program_makes_no_checkpoint(self):
        folder = self.model("gpt2")
        logits = self.logits(folder, "gpt2")
        (folder / "manifest.json").write_text('{"name": "gpt2", "format": "other"}')
        self.assertEqual(self.logits(folder, "gpt2"), logits)
        run(TOOLS / "l2l-export", folder, self.work / "out", "--quiet")
        self.assertEqual(self.logits(self.work / "out", "gpt2"), logits)
        config = self.work / "tune.toml"
        config.write_text(f'[model]\npretrained = "{folder}"\n[data]\ntrain = ["{self.work / "ids"}"]\nformat = "tokens"\n'
                          '[batch]\nmicro_batch = 1\n[run]\nsteps = 1\n')
        (self.work / "ids").write_bytes(bytes(2000))
        run(TOOLS / "l2l-train", config, "--quiet")
        (folder / "manifest.json").write_text('{"name"')  # may be a checkpoint's
        refused = run(TOOLS / "l2l-train", config, "--quiet", status=2)
        self.assertIn("manifest.json: text: is not JSON in UTF-8", refused.stderr)

    def test_other_names_of_the_same_tensors(self):
        """What older versions, base classes and other programs write."""
        def rename(tensors, change):
            return {change(name): tensor for name, tensor in tensors.items()}

        def gpt2(tensors):
            tensors = rename(tensors, lambda name: name.removeprefix("transformer."))
            return dict(tensors, **{"h.0.attn.bias": ([1, 1, 4, 4], [1.0] * 16), "h.1.attn.masked_bias": ([1], [-1e4])})

        def bert(tensors):
            def older(name):
                return name.removeprefix("bert.").replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                    "LayerNorm.bias", "LayerNorm.beta").replace("predictions.bias", "predictions.decoder.bias")
            return dict(rename(tensors, older), **{
                "embeddings.position_ids": ([1, 2], [0.0, 0.0]), "pooler.dense.weight": ([1, 1], [0.0]),
                "pooler.dense.bias": ([1], [0.0]), "cls.seq_relationship.weight": ([2, 1], [0.0, 0.0])})

        def llama(tensors):
            tensors = rename(tensors, lambda name: name.removeprefix("model."))
            return dict(tensors, **{"layers.0.self_attn.rotary_emb.inv_freq": ([2], [1.0, 0.5])})

        def tied(tensors):
            return dict(tensors, **{"lm_head.weight": tensors["model.embed_tokens.weight"]})

        for name, change in (("gpt2", gpt2), ("bert", bert), ("roberta", lambda t: rename(
                t, lambda n: n.removeprefix("roberta."))), ("llama", llama), ("llama-tied", tied)):
            with self.subTest(name):
                folder, fixture = self.model(name), MODELS[name]
                expected = self.logits(folder, name)
                tensors = {n: (s, hub_files.weights(fixture["config"]["model_type"], n, s))
                           for n, s in fixture["shapes"].items()}
                hub_files.write_safetensors(folder / "model.safetensors", change(tensors))
                self.assertEqual(self.logits(folder, name), expected)

    def test_the_bias_of_an_untied_encoders_head(self):
        """transformers computes an untied encoder with the decoder's bias, and has one more that it does not use."""
        folder, fixture = self.model("bert"), MODELS["bert"]
        tensors = {n: (s, hub_files.weights("bert", n, s)) for n, s in fixture["shapes"].items()}
        own, bias = "cls.predictions.decoder.bias", "cls.predictions.bias"
        shape, values = tensors.pop(bias)
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, tie_word_embeddings=False)))

        def logits(**biases):
            hub_files.write_safetensors(folder / "model.safetensors", dict(tensors, **biases))
            return self.logits(folder, "bert")

        expected = logits(**{own: (shape, values)})
        self.assertEqual(logits(**{bias: (shape, values)}), expected)
        self.assertEqual(logits(**{own: (shape, values), bias: (shape, [value + 1 for value in values])}), expected)
        self.assertNotEqual(logits(**{own: (shape, [value + 1 for value in values]), bias: (shape, values)}), expected)
        run(TOOLS / "l2l-export", folder, self.work / "untied", "--quiet")
        header = (self.work / "untied/model.safetensors").read_bytes()
        self.assertIn(own.encode(), header)
        self.assertNotIn(bias.encode(), header)

    def plan(self, folder, *more):
        return json.loads(run(TOOLS / "l2l-plan", folder, *more).stdout)

    def test_plans_of_published_shapes(self):
        for name, (config, parameters) in PUBLISHED.items():
            with self.subTest(name):
                folder = self.work / name
                folder.mkdir()
                (folder / "config.json").write_text(json.dumps(config))
                for moments, most in (("fp32", 12.01), ("bf16", 8.01), ("int8", 6.14)):
                    plan = self.plan(folder, "--set", f"optimizer.moments={moments}")
                    self.assertEqual(plan["parameters"], parameters)
                    state = sum(line["bytes"] for line in plan["host"] if line["what"] == "weights and optimizer state")
                    self.assertLess(most - 0.2, state / parameters)
                    self.assertLess(state / parameters, most)
                    self.assertIsNone(plan["step_ms"])
                    self.assertEqual(plan["largest_sequence"] is None, not plan["fits"])

    def test_plan_of_a_model_that_fits(self):
        folder = self.model("llama")
        plan = self.plan(folder)
        self.assertTrue(plan["fits"])
        self.assertEqual(plan["largest_sequence"], 64)
        self.assertEqual(plan["settings"], ["precision.compute=bf16"])
        tight = self.plan(folder, "--set", "device.memory=20KiB")
        self.assertFalse(tight["fits"])
        self.assertIsNone(tight["largest_sequence"])

    def test_vocabularies_of_more_than_16_bits(self):
        ids = [262143, 65536, 65535, 200000, 7, 131072] * 12
        (self.work / "tokens.bin").write_bytes(struct.pack(f"<{len(ids)}I", *ids))
        config = self.work / "wide.toml"
        config.write_text(f'[model]\narchitecture = "llama"\nlayers = 2\nhidden = 16\nheads = 2\nvocabulary = 262144\nsequence = 8\n'
                          f'dropout = 0\n[data]\ntrain = ["{self.work / "tokens.bin"}"]\nformat = "tokens32"\n[optimizer]\n'
                          f'learning_rate = 0.05\n[batch]\nmicro_batch = 2\n[checkpoint]\ndirectory = "{self.work / "wide"}"\n')
        hashes, losses = set(), []
        for chunk in (0, 100000):
            metrics = self.work / f"{chunk}.jsonl"
            done = run(TOOLS / "l2l-train", config, "--steps", 6, "--metrics", metrics, "--quiet", "--set",
                       f"transfer.vocabulary_chunk={chunk}")
            losses.append([json.loads(line)["loss"] for line in metrics.read_text().splitlines() if '"loss"' in line])
            hashes.add(json.loads(done.stdout.splitlines()[-1])["weights_hash"])
        self.assertAlmostEqual(losses[0][0], 12.4766, delta=0.02)  # ln 262144
        self.assertLess(losses[0][-1], losses[0][0] - 1)
        self.assertLess(abs(losses[0][-1] - losses[1][-1]), 1e-3)
        self.assertIn("262143", run(TOOLS / "l2l-sample", self.work / "wide", "--ids", "131072", "--tokens", 1, "--temperature",
                                    0).stdout)
        (self.work / "tokens.bin").write_bytes(struct.pack("<3I", 1, 262144, 2) * 20)
        refused = run(TOOLS / "l2l-train", config, "--quiet", status=2)
        self.assertIn("token 262144 at byte 4 is not below model.vocabulary", refused.stderr)
        (self.work / "tokens.bin").write_bytes(bytes(402))
        self.assertIn("four bytes per token", run(TOOLS / "l2l-train", config, "--quiet", status=2).stderr)

    def test_keys_that_contradict_the_file_are_refused(self):
        config = self.config("llama", "run", 1)
        refused = run(TOOLS / "l2l-train", config, "--set", "model.layers=3", "--quiet", status=2)
        self.assertIn("model.layers = 3, but ", refused.stderr)
        self.assertIn("config.json gives 2", refused.stderr)
        run(TOOLS / "l2l-train", config, "--set", "model.layers=2", "--set", "model.attention=core", "--quiet")
        self.assertIn("exceeds model.positions = 64",
                      run(TOOLS / "l2l-train", config, "--set", "model.sequence=65", "--quiet", status=2).stderr)

    def test_keys_that_contradict_the_checkpoint_are_refused(self):
        config = self.config("llama", "run", 1)
        run(TOOLS / "l2l-train", config, "--quiet")
        resume = (config, "--resume", self.work / "run", "--steps", 2, "--quiet")
        for key, value, was, way_out in (("layers", 3, 2, "cannot go on with"), ("vocabulary", 500, "", "cannot go on with"),
                                         ("rope_theta", 500.5, "", "--allow-change model.rope_theta"), ("norm_epsilon", 0.001, "", "--allow-change")):
            refused = run(TOOLS / "l2l-train", *resume, "--set", f"model.{key}={value}", status=2).stderr
            self.assertIn(f"model.{key} = {value} (was {was}", refused)
            self.assertIn(way_out, refused)
        refused = run(TOOLS / "l2l-train", *resume, "--set", "data.tokenizer=bytes", "--set", "data.format=text", status=2).stderr
        self.assertIn('data.tokenizer = "bytes"', refused)
        run(TOOLS / "l2l-train", *resume, "--set", "model.layers=2")

    def test_a_model_of_many_tokens_without_its_tokenizer_reads_no_text(self):
        fixture = MODELS["gpt2"]
        many, few = self.work / "many", self.work / "few"
        for folder, tokens in ((many, 600), (few, 300)):
            hub_files.write_model(folder, {**fixture["config"], "vocab_size": tokens},
                                  {**fixture["shapes"], "transformer.wte.weight": [tokens, fixture["config"]["n_embd"]]})
        (self.work / "text").write_text("the quick brown fox. " * 100)

        def train(folder, *more, status=0):
            config = self.work / "run.toml"
            config.write_text(f'[model]\npretrained = "{folder}"\nsequence = 8\n[data]\ntrain = ["text"]\nformat = "text"\n'
                              f'[run]\nsteps = 1\n[checkpoint]\ndirectory = "{self.work / "run"}"\n')
            return run(TOOLS / "l2l-train", config, "--quiet", *more, status=status).stderr

        refused = train(many, status=2)
        self.assertIn(f'model.pretrained = "{many}": has no tokenizer', refused)
        self.assertIn("data.tokenizer", refused)
        self.assertFalse((self.work / "run").exists())
        train(many, "--set", "data.tokenizer=bytes")
        shutil.rmtree(self.work / "run")
        train(few)

    def test_a_run_goes_on_with_its_own_model_alone(self):
        config = self.config("llama", "run", 1)
        run(TOOLS / "l2l-train", config, "--quiet")
        other = self.model("qwen2", vocab_size=MODELS["qwen2"]["config"]["vocab_size"] + 1)
        on = (TOOLS / "l2l-train", config, "--quiet", "--resume", self.work / "run", "--steps", 2)
        refused = run(*on, "--set", f"model.pretrained={other}", status=2).stderr
        self.assertIn(f'model.pretrained = "{other}": is another model (qwen2 of', refused)
        self.assertIn("(llama of", refused)
        refused = run(*on, "--set", "lora.rank=2", status=2).stderr
        self.assertIn("has no adapters", refused)
        self.assertIn("model.pretrained = ", refused)
        run(*on)

    def test_a_base_that_has_moved(self):
        config = self.config("llama", "run", 1)
        adapters = (config, "--set", "lora.rank=2", "--quiet")
        run(TOOLS / "l2l-train", *adapters)
        base = pathlib.Path(config.read_text().split('pretrained = "')[1].split('"')[0])
        moved = base.rename(base.parent / "moved")
        resume = (*adapters, "--resume", self.work / "run", "--steps", 2)
        sample = (TOOLS / "l2l-sample", self.work / "run", "--ids", "1,2", "--tokens", 1)
        export = (TOOLS / "l2l-export", self.work / "run", self.work / "merged", "--merge", "--quiet")
        for command in ((TOOLS / "l2l-train", *resume), (TOOLS / "l2l-train", *resume, "--dry-run"), sample, export):
            refused = run(*command, status=2).stderr
            self.assertIn(f'model.base = "{base}": is not a directory', refused)
            self.assertIn("leave a symbolic link", refused)
        run(TOOLS / "l2l-train", *resume, "--set", f"model.base={moved}")
        base.symlink_to(moved)
        run(*sample)
        run(*export)
        # Damage of it is no reason to try an older checkpoint.
        weights = moved / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        refused = run(*sample, status=2).stderr
        self.assertIn("model.safetensors", refused)
        self.assertNotIn("checkpoint", refused.replace("checkpoints", ""))

    def test_a_checkpoint_is_a_model_directory(self):
        config = self.config("gemma3", "run", 2)
        (self.work / "carried").mkdir()
        model = pathlib.Path(config.read_text().split('pretrained = "')[1].split('"')[0])
        (model / "tokenizer.json").write_bytes(b'{"carried": "along"}\n')
        whole = run(TOOLS / "l2l-train", config, "--quiet")
        checkpoint = self.work / "run/step-00000002"
        self.assertEqual((checkpoint / "tokenizer.json").read_bytes(), b'{"carried": "along"}\n')
        ours = self.logits(checkpoint, "gemma3", "--sequence", len(MODELS["gemma3"]["ids"]))
        run(TOOLS / "l2l-export", self.work / "run", self.work / "plain", "--quiet")
        self.assertEqual(self.logits(self.work / "plain", "gemma3"), ours)
        self.assertEqual((self.work / "plain/tokenizer.json").read_bytes(), b'{"carried": "along"}\n')
        # Resuming does not need the model's own directory.
        run(TOOLS / "l2l-train", config, "--quiet", "--set", f"checkpoint.directory={self.work / 'again'}", "--steps", 1)
        for file in model.iterdir():
            file.unlink()
        model.rmdir()
        again = run(TOOLS / "l2l-train", config, "--quiet", "--resume", self.work / "again", "--set",
                    f"checkpoint.directory={self.work / 'again'}")
        hashes = [json.loads(done.stdout.splitlines()[-1])["weights_hash"] for done in (whole, again)]
        self.assertEqual(hashes[0], hashes[1])

    def test_what_is_taken_for_a_model_directory_says_what_it_is(self):
        config = self.config("llama", "run", 1)
        model = config.read_text().split('pretrained = "')[1].split('"')[0]
        whole, adapters, peft, merged = (self.work / name for name in ("run", "adapters", "peft", "merged"))
        run(TOOLS / "l2l-train", config, "--quiet")
        run(TOOLS / "l2l-train", config, "--quiet", "--set", "lora.rank=2", "--set", f"checkpoint.directory={adapters}")
        run(TOOLS / "l2l-export", adapters, peft, "--quiet")
        step = "step-00000001"
        says = {whole: f"holds checkpoints of a run; name one of them, such as {whole / step}",
                adapters: f"holds adapters without their model; l2l-export {adapters} OUT --merge makes a model directory of both",
                adapters / step: f"holds adapters without their model; l2l-export {adapters / step} OUT --merge makes a model directory of both",
                peft: f'an adapter; name the model that it belongs to, and set lora.adapter = "{peft}"'}
        (self.work / "rows.jsonl").write_text('{"text": "a"}\n' * 9)
        for directory, what in says.items():
            message = f"l2l-train: {directory}: has no config.json of a model, but {what}\n"
            for arguments in ((config, "--set", f"model.pretrained={directory}"), (config, "--pretrained", directory),
                              ("--pretrained", directory, "--data", self.work / "rows.jsonl", "--output", self.work / "chosen")):
                self.assertIn(message, run(TOOLS / "l2l-train", *arguments, status=2).stderr)
        self.assertIn(says[peft], run(TOOLS / "l2l-eval", peft, "--data", self.work / "rows.jsonl", status=2).stderr)
        # The ways out are ones.
        run(TOOLS / "l2l-export", adapters, merged, "--merge", "--quiet")
        for directory in (whole / step, merged):
            run(TOOLS / "l2l-train", config, "--dry-run", "--set", f"model.pretrained={directory}")
        run(TOOLS / "l2l-train", config, "--dry-run", "--set", f"lora.adapter={peft}")
        beside = self.logits(model, "llama", "--set", f"lora.adapter={peft}")
        self.assertLess(relative(beside, self.logits(merged, "llama")), 1e-5)
        self.assertNotEqual(beside, self.logits(model, "llama"))
        sample = ("--ids", "1,2", "--tokens", 8, "--temperature", 0)
        self.assertEqual(run(TOOLS / "l2l-sample", model, *sample, "--set", f"lora.adapter={peft}").stdout,
                         run(TOOLS / "l2l-sample", merged, *sample).stdout)
        # With a matrix that PEFT trained whole (modules_to_save), which checkpoints would not have.
        file = peft / "adapter_model.safetensors"
        raw = file.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header, data, shape = json.loads(raw[8:8 + length]), raw[8 + length:], MODELS["llama"]["shapes"]["lm_head.weight"]
        size = 4 * math.prod(shape)
        header["base_model.model.lm_head.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + data + bytes(size))
        adapter = ("--set", f"lora.adapter={peft}")
        refused = run(TOOLS / "l2l-train", config, "--dry-run", *adapter, status=2).stderr
        self.assertIn("trained whole (modules_to_save)\n  1 that are frozen here:\n    lm_head.weight\nname them in optimizer.train\n", refused)
        run(TOOLS / "l2l-train", config, "--dry-run", *adapter, "--set", 'optimizer.train=["lm_head.weight"]')
        self.assertNotEqual(self.logits(model, "llama", *adapter), beside)  # nothing is saved


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
