#!/usr/bin/env python3
"""Compares GGUF exports with llama.cpp on small models of every decoder family: logits, greedy text, tokens.

    gguf_check.py BUILD/tools LLAMA_SOURCE LLAMA_BUILD [NAME...]

LLAMA_SOURCE: the source of llama.cpp, which the source package of llama-cpp-python has in vendor/llama.cpp.
LLAMA_BUILD: built from it with shared libraries (target llama). Needs PyTorch, transformers, numpy,
and for tokenizers $L2L_TEST_DATA and sentencepiece. Prints a line for each model and type; exit status 1 when one is too far off.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    for name in ("source", "build"):
        parser.add_argument(name, type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("names", nargs="*")
    ARGUMENTS = parser.parse_args()
    needs("numpy", "torch", "transformers", *(["sentencepiece"] if "L2L_TEST_DATA" in os.environ else []))

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import hub_models  # noqa: E402

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

TOKENS = 40
DEVIATION = 0.05  # of matrices: large enough that every feature shows in the logits, at twice that of published models
# Relative L2 distance of logits.
BOUNDS = {"f32": 1e-3, "f16": 5e-3, "bf16": 5e-3, "q8_0": 3e-2}
# The weights of a file of 16 bits are those of a model of this type, so that what differs is the arithmetic.
OWN = {"f16": torch.float16, "bf16": torch.bfloat16}
SIZES = dict(hidden_size=96, intermediate_size=160)
# Of hub_models.py, with sizes of whole blocks of q8_0 and with what llama.cpp has for the family.
MODELS = {
    "gpt2": dict(n_embd=96),
    "gpt2-untied": dict(n_embd=96, n_inner=160, activation_function="gelu_new"),
    "llama": SIZES, "llama-tied": SIZES, "llama-biases": dict(SIZES, head_dim=16), "llama-linear": SIZES,
    "llama-dynamic": dict(SIZES, max_position_embeddings=TOKENS + 24), "llama-llama3": SIZES,
    "llama-yarn": SIZES, "mistral": dict(SIZES, sliding_window=TOKENS + 24), "mistral-full": dict(SIZES, head_dim=32),
    "qwen2": SIZES, "qwen2-window": dict(SIZES, sliding_window=TOKENS + 24), "qwen3": dict(SIZES, head_dim=32),
    "gemma2": dict(SIZES, head_dim=32, query_pre_attn_scalar=32),
    "gemma3": dict(SIZES, head_dim=32, query_pre_attn_scalar=32, num_hidden_layers=4, layer_types=[
        "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]),
    "gemma3-linear": dict(SIZES, head_dim=32, query_pre_attn_scalar=32),
}


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.decode().strip()}")
    return done.stdout


def build_runner(source, build, work):
    libraries = build / "bin"
    run("c++", "-std=c++17", "-O1", f"-I{source}/include", f"-I{source}/ggml/include",
        pathlib.Path(__file__).parent / "llama_run.cpp", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lllama", "-lggml",
        "-lggml-base", "-o", work / "llama_run")
    return work / "llama_run"


def make_model(name, folder, dtype=torch.float32):
    config_class, arguments, model_class = hub_models.MODELS[name]
    torch.manual_seed(7)
    model = model_class(config_class(**dict(arguments, **MODELS[name])))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.normal_(0, DEVIATION) if parameter.dim() > 1 else parameter.add_(torch.randn_like(parameter) * 0.1)
            if "post_feedforward" in key or ("gemma" in name and "post_attention" in key):
                parameter.sub_(0.6)  # branches that do not drown the embedding
    model.to(dtype).save_pretrained(folder)
    return model.config.vocab_size


def our_logits(tools, folder, ids, work):
    (work / "ids.txt").write_text(" ".join(map(str, ids)))
    run(tools / "l2l-eval", folder, "--tokens", work / "ids.txt", "--logits", work / "logits.npy")
    return numpy.load(work / "logits.npy")


def check_greedy(tools, llama, folder, gguf, closest):
    """The same tokens until two logits come closer than `closest`; returns how many were the same."""
    ids, count = [5, 9, 2], 20
    theirs = [line.split() for line in run(llama, gguf, "greedy", count, *ids).decode().splitlines()]
    ours = run(tools / "l2l-sample", folder, "--ids", ",".join(map(str, ids)), "--tokens", count, "--temperature", 0)
    for i, (own, (token, gap)) in enumerate(zip(map(int, ours.split()), theirs)):
        if float(gap) < closest:
            return i
        if own != int(token):
            raise AssertionError(f"token {i} is {own}, llama.cpp's {token}, {gap} above the next")
    return count


def check_models(tools, llama, names, work):
    failed = False
    for name in names:
        for kind, bound in BOUNDS.items():
            folder = work / f"{name}-{kind}"
            vocabulary = make_model(name, folder, OWN.get(kind, torch.float32))
            ids = torch.randint(0, vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(3)).tolist()
            ours = our_logits(tools, folder, ids, work)
            gguf = work / f"{name}-{kind}.gguf"
            run(tools / "l2l-export", folder, gguf, "--format", "gguf", "--type", kind, "--quiet")
            run(llama, gguf, "logits", work / "theirs.bin", *ids)
            theirs = numpy.fromfile(work / "theirs.bin", numpy.float32).reshape(ours.shape)
            error = float(numpy.linalg.norm(theirs - ours) / numpy.linalg.norm(ours))
            # Two logits may change places where they are closer than the error of each.
            same = check_greedy(tools, llama, folder, gguf, 8 * bound * float(numpy.abs(ours).std()))
            failed |= error > bound
            print(f"{name:14} {kind:5} logits {error:.1e} of {bound:.0e}, {same} greedy tokens"
                  f"{'  FAILED' if error > bound else ''}", flush=True)
    return failed


def texts():
    """Texts of many kinds, and random ones of what such texts are made of."""
    samples = ["", " ", "Hello world!", "  two spaces  and a tab\t.", "I'm, you're, WE'LL, he'd", "1234567 3.14 1,000",
               "été naïve Größe ﬁ", "日本語のテキスト、漢字とかな。", "한국어 텍스트", "привет МИР", "🦙🦙 👩‍👩‍👧 emoji",
               "line\nline\n\n\nline\r\n", "a/b\\c_d-e+f=g<h>i", "x" * 100, "नमस्ते दुनिया", "مرحبا بالعالم", "\u00a0nbsp\u2003em"]
    generator = random.Random(5)
    letters = "".join(samples) + "          \n'"
    return samples + ["".join(generator.choice(letters) for _ in range(generator.randint(1, 60))) for _ in range(3000)]


def tokenizer_folders(data, work):
    """Tiny Llamas with the tokenizers of the test data and with those that transformers has of their kind."""
    found = {"deepseek": {"tokenizer.json": data / "tokenizers/deepseek.json"},
             "mistral_v3": {"tokenizer.model": data / "tokenizers/mistral_v3.model"}}
    description = json.loads((data / "tokenizers/deepseek.json").read_text())
    gpt2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    bytes_only = dict(gpt2, use_regex=False)
    endings, spaces = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    marks = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" + spaces
    llama3 = endings + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" + marks
    upper, lower = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    small = f"[^\\r\\n\\p{{L}}\\p{{N}}]?{upper}*{lower}+"
    capital = f"[^\\r\\n\\p{{L}}\\p{{N}}]?{upper}+{lower}*"
    slashes = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" + spaces
    cuts = {"gpt-2": ([gpt2], False), "smollm": ([{"type": "Digits", "individual_digits": True}, gpt2], False),
            "dbrx": ([dict(split, pattern={"Regex": llama3}), bytes_only], False),
            "llama-bpe": ([dict(split, pattern={"Regex": llama3}), bytes_only], True),
            "qwen2": ([dict(split, pattern={"Regex": llama3.replace("{1,3}", "")}), bytes_only], False),
            "tekken": ([dict(split, pattern={"Regex": f"{small}|{capital}|\\p{{N}}" + slashes}), bytes_only], True),
            "gpt-4o": ([dict(split, pattern={"Regex": f"{small}{endings}?|{capital}{endings}?|\\p{{N}}{{1,3}}" + slashes}),
                        bytes_only], False)}
    for name, (steps, ignore) in cuts.items():
        own = dict(description, pre_tokenizer={"type": "Sequence", "pretokenizers": steps},
                   model=dict(description["model"], ignore_merges=ignore))
        (work / f"{name}.json").write_text(json.dumps(own))
        found[name] = {"tokenizer.json": work / f"{name}.json"}
    return found


def check_tokenizers(tools, llama, data, work):
    """The ids that llama.cpp gives are those that l2l-tokenize gives."""
    failed = False
    (work / "texts").write_bytes("".join(text + "\0" for text in texts()).encode())
    for name, files in tokenizer_folders(data, work).items():
        folder = work / f"tokenizer-{name}"
        count = int(run(sys.executable, "-c", COUNT, list(files.values())[0]))
        config = transformers.LlamaConfig(vocab_size=count, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                                          num_attention_heads=1, bos_token_id=1, eos_token_id=2)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        for target, source in files.items():
            shutil.copy(source, folder / target)
        (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": False}))
        run(tools / "l2l-export", folder, work / "tokens.gguf", "--format", "gguf", "--type", "q8_0", "--quiet")
        theirs = run(llama, work / "tokens.gguf", "tokens", input=(work / "texts").read_bytes()).decode().split("\n")[:-1]
        ours = run(tools / "l2l-tokenize", folder, work / "texts", "--null").decode().split("\n")[:-1]
        # llama.cpp's form of these two has no combining marks.
        marks = [i for i, text in enumerate(texts()) if name in ("tekken", "gpt-4o")
                 and any(unicodedata.category(letter).startswith("M") for letter in text)]
        wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a.split() != b.split() and i not in marks]
        bad = len(wrong) > 0 or len(ours) != len(theirs)
        failed |= bad
        print(f"tokenizer {name:11} {len(ours) - len(marks)} texts, {len(wrong)} with other ids{'  FAILED' if bad else ''}", flush=True)
        for i in wrong[:3]:
            print(f"   {texts()[i]!r}\n   ours   {ours[i]}\n   theirs {theirs[i]}")
        (work / "tokens.gguf").unlink()
    return failed


# Prints how many tokens a tokenizer's file has.
COUNT = """
import json, sys
if sys.argv[1].endswith(".json"):
    parsed = json.load(open(sys.argv[1]))
    print(1 + max([*parsed["model"]["vocab"].values(), *(token["id"] for token in parsed["added_tokens"])]))
else:
    import sentencepiece
    print(sentencepiece.SentencePieceProcessor(sys.argv[1]).vocab_size())
"""


def main(arguments):
    tools, names = arguments.tools, arguments.names or list(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        llama = build_runner(arguments.source, arguments.build, work)
        failed = check_models(tools, llama, [name for name in names if name != "tokenizers"], work)
        if "L2L_TEST_DATA" in os.environ and (not arguments.names or "tokenizers" in names):
            failed |= check_tokenizers(tools, llama, pathlib.Path(os.environ["L2L_TEST_DATA"]), work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(ARGUMENTS))
