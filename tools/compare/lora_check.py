#!/usr/bin/env python3
"""Compares adapters (lora.rank) with PEFT's, for small models of every family: losses of twenty AdamW steps from a PEFT
adapter directory, the adapters that come back, and the merged model.

    lora_check.py BUILD/tools [FAMILY...]

Needs PyTorch, transformers and peft. Prints a line for each; exit status 1 when one is too far off.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("families", nargs="*")
    ARGUMENTS = parser.parse_args()
    needs("torch", "transformers", "peft", "safetensors")

import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from hub_models import FAMILIES  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

STEPS = 20
# Targets, alpha, and whether the scale is rank-stabilized.
ADAPTERS = {
    "gpt2": (["c_attn", "c_proj"], 16, False),
    "bert": (["query", "value", "intermediate.dense"], 16, False),
    "roberta": (["query", "key"], 4, True),
    "llama": (["q_proj", "v_proj"], 16, False),
    "mistral": (["q_proj", "k_proj", "v_proj", "o_proj"], 8, True),
    "qwen2": ("all-linear", 16, False),
    "qwen3": (["gate_proj", "up_proj", "down_proj"], 16, False),
    "gemma2": (["v_proj", "o_proj"], 16, False),
    "gemma3": ("all-linear", 8, True),
}
ENCODERS = {"bert": ["classifier", "pooler"], "roberta": ["classifier"]}
CONFIG = """
[model]
pretrained = "{folder}"
{head}
sequence = 40
dropout = 0.0
[lora]
adapter = "{adapter}"
[data]
train = ["{data}"]
{label}
samples = "padded"
order = "sequential"
tokenizer = "bytes"
[precision]
compute = "fp32"
[batch]
micro_batch = 2
micro_batches = 2
[optimizer]
learning_rate = 2e-3
weight_decay = 0.0
clip = "none"
[run]
steps = {steps}
[checkpoint]
directory = "{out}"
"""


def texts(count):
    draw = random.Random(4)
    return [("".join(draw.choice("abcdefgh") for _ in range(draw.randint(2, 40))), draw.randrange(3)) for _ in range(count)]


def batch_of(rows, pad, classifies):
    longest = max(len(text) for text, _ in rows)
    ids = torch.tensor([[*text.encode(), *[pad] * (longest - len(text))] for text, _ in rows])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text, _ in rows])
    labels = torch.tensor([label for _, label in rows]) if classifies else ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def run(*command, work):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())


def relative(a, b):
    return float((a - b).norm() / b.norm())


def check(tools, name):
    torch.manual_seed(3)
    classifies = name in ENCODERS
    kind = transformers.AutoModelForSequenceClassification if classifies else transformers.AutoModelForCausalLM
    base = kind.from_config(FAMILIES[name], attn_implementation="eager").float()
    targets, alpha, stabilized = ADAPTERS[name]
    rows = texts(4 * STEPS)
    pad = FAMILIES[name].pad_token_id
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        base.save_pretrained(work / "model")
        config = peft.LoraConfig(r=4, lora_alpha=alpha, target_modules=targets, use_rslora=stabilized,
                                 task_type="SEQ_CLS" if classifies else "CAUSAL_LM", modules_to_save=ENCODERS.get(name))
        model = peft.get_peft_model(base, config)
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                torch.nn.init.normal_(parameter, std=0.02)
        model.save_pretrained(work / "adapter")
        (work / "rows.jsonl").write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
        written = {"folder": work / "model", "adapter": work / "adapter", "data": work / "rows.jsonl", "out": work / "out",
                   "head": 'head = "classification"\nlabels = 3' if classifies else "", "label": 'label = "label"' if classifies else ""}
        (work / "run.toml").write_text(CONFIG.format(steps=STEPS, **written))
        # Nothing trained: what goes out is what came in, bit for bit.
        run(tools / "l2l-train", work / "run.toml", "--quiet", "--steps", 0, work=work)
        run(tools / "l2l-export", work / "out", work / "same", "--quiet", work=work)
        given, same = load_file(work / "adapter/adapter_model.safetensors"), load_file(work / "same/adapter_model.safetensors")
        if given.keys() != same.keys() or any(not torch.equal(given[key], same[key]) for key in given):
            raise RuntimeError(f"other adapters come back: {sorted(given.keys() ^ same.keys())[:4]}")
        run(tools / "l2l-train", work / "run.toml", "--quiet", "--metrics", work / "metrics.jsonl", work=work)
        ours = [json.loads(line)["loss"] for line in (work / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
        run(tools / "l2l-export", work / "out", work / "trained", "--quiet", work=work)
        run(tools / "l2l-export", work / "out", work / "merged", "--merge", "--quiet", work=work)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3, weight_decay=0.0)
        theirs = []
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = model.train()(**batch_of(rows[4 * step:4 * step + 4], pad, classifies)).loss
            loss.backward()
            optimizer.step()
            theirs.append(loss.item())
        batch = batch_of(rows[:8], pad, classifies)
        again = peft.PeftModel.from_pretrained(kind.from_pretrained(work / "model", attn_implementation="eager"), work / "trained").eval()
        merged = kind.from_pretrained(work / "merged", attn_implementation="eager").eval()
        with torch.no_grad():
            expected, found = model.eval()(**batch).logits, again(**batch).logits
            own = merged(**batch).logits
        weights = again.merge_and_unload().state_dict()
        by_peft = max(relative(merged.state_dict()[key], value) for key, value in weights.items() if value.norm() > 0)
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
    logits, after_merge = relative(found, expected), relative(own, found)
    good = apart < 1e-4 and logits < 1e-2 and after_merge < 1e-4 and by_peft < 1e-6
    print(f"{'ok ' if good else 'BAD'} {name:8} losses {apart:.1e}  logits in PEFT {logits:.1e}  merged: logits {after_merge:.1e}, "
          f"weights over PEFT's merge {by_peft:.1e}", flush=True)
    return good


def main(arguments):
    torch.set_num_threads(1)
    bad = 0
    for name in arguments.families or ADAPTERS:
        try:
            bad += not check(arguments.tools, name)
        except Exception as error:  # the others are still of interest
            print(f"BAD {name:8} {type(error).__name__}: {str(error)[:600]}", flush=True)
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(ARGUMENTS)
