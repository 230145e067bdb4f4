#!/usr/bin/env python3
"""Compares classification heads with transformers' ...ForSequenceClassification, for small models of every family: losses
of ten AdamW steps on labelled texts, and the checkpoint's logits.

    head_check.py BUILD/tools [FAMILY...]

Needs PyTorch, transformers and scikit-learn. Prints a line for each; exit status 1 when one is too far off.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
         "max_position_embeddings": 66, "num_labels": 3, "pad_token_id": 0}
DECODER = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}
FAMILIES = {
    "gpt2": transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64, num_labels=3, pad_token_id=0,
                                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, summary_first_dropout=0),
    "bert": transformers.BertConfig(**SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0),
    "roberta": transformers.RobertaConfig(**{**SIZES, "pad_token_id": 1}, type_vocab_size=1, hidden_dropout_prob=0,
                                          attention_probs_dropout_prob=0),
    "llama": transformers.LlamaConfig(**DECODER),
    "mistral": transformers.MistralConfig(**DECODER, sliding_window=7),
    "qwen2": transformers.Qwen2Config(**SIZES, num_key_value_heads=2),
    "qwen3": transformers.Qwen3Config(**DECODER),
    "gemma2": transformers.Gemma2Config(**DECODER, query_pre_attn_scalar=8, sliding_window=7),
    "gemma3": transformers.Gemma3TextConfig(**DECODER, query_pre_attn_scalar=8, sliding_window=7),
}
CONFIG = """
[model]
pretrained = "{folder}"
head = "classification"
labels = 3
sequence = 40
dropout = 0.0
[data]
train = ["{data}"]
validation = ["{data}"]
label = "label"
samples = "{samples}"
order = "sequential"
tokenizer = "bytes"
[batch]
micro_batch = 2
micro_batches = 2
[optimizer]
learning_rate = 2e-3
weight_decay = 0.0
clip = "none"
[run]
steps = 10
[checkpoint]
directory = "{out}"
"""


def texts(count=40):
    draw = random.Random(4)
    found = []
    for _ in range(count):
        label = draw.randrange(3)
        letters = "abcdefgh" if label == 0 else "ghijklmn" if label == 1 else "nopqrstu"
        found.append(("".join(draw.choice(letters) for _ in range(draw.randint(1, 40))), label))
    return found


def batch_of(rows, pad):
    longest = max(len(text) for text, _ in rows)
    ids = torch.tensor([[*text.encode(), *[pad] * (longest - len(text))] for text, _ in rows])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text, _ in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([label for _, label in rows])}


def check(tools, name, samples):
    torch.manual_seed(3)
    model = transformers.AutoModelForSequenceClassification.from_config(FAMILIES[name], attn_implementation="eager").float()
    rows = texts()
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        model.save_pretrained(work / "model")
        (work / "rows.jsonl").write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
        (work / "run.toml").write_text(CONFIG.format(folder=work / "model", data=work / "rows.jsonl", out=work / "out", samples=samples))
        done = subprocess.run([tools / "l2l-train", work / "run.toml", "--quiet", "--metrics", work / "metrics.jsonl"], capture_output=True,
                              text=True, env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        metrics = json.loads(done.stdout.splitlines()[-1])["metrics"]
        ours = [json.loads(line)["loss"] for line in (work / "metrics.jsonl").read_text().splitlines()]
        checkpoint = sorted((work / "out").glob("step-*"))[-1]
        again = type(model).from_pretrained(checkpoint, attn_implementation="eager").eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    theirs = []
    for step in range(10):
        optimizer.zero_grad()
        loss = model.train()(**batch_of(rows[4 * step:4 * step + 4], model.config.pad_token_id)).loss
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    with torch.no_grad():
        batch = batch_of(rows[:8], model.config.pad_token_id)
        expected, found = model.eval()(**batch).logits, again(**batch).logits
        classes = again(**batch_of(rows, model.config.pad_token_id)).logits.argmax(-1).tolist()
    labels = [label for _, label in rows]
    scores = {"accuracy": accuracy_score(labels, classes), "f1": f1_score(labels, classes, average="macro"),
              "matthews": matthews_corrcoef(labels, classes)}
    same = metrics.keys() == scores.keys() and all(abs(metrics[name] - score) < 1e-9 for name, score in scores.items())
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
    logits = float((expected - found).norm() / expected.norm())
    good = apart < 1e-4 and logits < 1e-2 and same
    print(f"{'ok ' if good else 'BAD'} {name:8} {samples}  losses {apart:.1e}  logits of the checkpoint {logits:.1e}  metrics {'same' if same else f'{metrics}, expected {scores}'}", flush=True)
    return good


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    bad = 0
    for name in sys.argv[2:] or FAMILIES:
        try:
            bad += not check(tools, name, "padded")
        except Exception as error:  # the others are still of interest
            print(f"BAD {name:8} {type(error).__name__}: {str(error)[:600]}", flush=True)
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
