#!/usr/bin/env python3
"""Tokens per second of l2l-sample with its cache of keys and values and without, and of transformers with its own.

    sample_speed.py BUILD/tools [--prompts N] [--prompt TOKENS] [--tokens N]      (needs PyTorch and transformers)

A Llama of 8 layers of 512, context 512, fp32, random weights. A run's seconds less those of a run of one token, which
loads the model and reads the prompts, over the further tokens; the best of three. Where these take less than a second,
their number (--tokens to begin with, without cache a quarter of it) is doubled, as far as the context goes.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

from machine import print_header
from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("--prompts", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    ARGUMENTS = parser.parse_args()
    needs("torch", "transformers")

import torch  # noqa: E402
import transformers  # noqa: E402

transformers.utils.logging.disable_progress_bar()
CONTEXT = 512


def seconds(*command):
    begin = time.time()
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return time.time() - begin


def measure(run, count, most):
    """Tokens behind the first, from `count` to `most` in all, and the seconds that they take."""
    while True:
        taken = min(run(count) - run(1) for _ in range(3))
        if taken >= 1 or count >= most:
            return count - 1, taken
        count = min(most, 2 * count)


def main(arguments):
    print_header(arguments.tools / "l2l-sample", "torch", "transformers")
    torch.manual_seed(1)
    torch.set_num_threads(os.cpu_count())
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
                                      num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=CONTEXT,
                                      bos_token_id=None, eos_token_id=None)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        model = transformers.LlamaForCausalLM(config).eval()
        model.save_pretrained(work / "model")
        # Bytes are tokens: a tokenizer of them, so that a file of prompts can be given.
        letters = {chr(code): i for i, code in enumerate([*range(33, 127), *range(161, 173), *range(174, 256),
                                                          *range(256, 324)])}
        (work / "model/tokenizer.json").write_text(json.dumps({
            "model": {"type": "BPE", "vocab": letters, "merges": []}, "decoder": {"type": "ByteLevel"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}}))
        (work / "prompts.txt").write_text("".join(chr(97 + i % 26) * arguments.prompt + "\n"
                                                  for i in range(arguments.prompts)))

        def ours(tokens, *more):
            return seconds(arguments.tools / "l2l-sample", work / "model", "--prompts", work / "prompts.txt", "--tokens",
                           tokens, "--temperature", 0, "--no-stop", *more)

        def theirs(tokens):
            ids = torch.randint(0, 256, (arguments.prompts, arguments.prompt))
            begin = time.time()
            with torch.no_grad():
                model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)
            return time.time() - begin

        rates = {}
        for name, run, count in (("cache", ours, arguments.tokens), ("transformers", theirs, arguments.tokens),
                                 ("no cache", lambda tokens: ours(tokens, "--no-cache"), max(2, arguments.tokens // 4))):
            most = CONTEXT - arguments.prompt
            tokens, taken = measure(run, min(count, most), most)
            rates[name] = arguments.prompts * tokens / taken
            print(f"{name:12} {rates[name]:8.1f} tokens/s ({arguments.prompts} x {tokens} in {taken:.2f} s)", flush=True)
        print(f"cache over no cache: {rates['cache'] / rates['no cache']:.1f}")


if __name__ == "__main__":
    main(ARGUMENTS)
