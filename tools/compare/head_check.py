#!/usr/bin/env python3
"""Compares heads with transformers' classes, for small models of every family: ...ForSequenceClassification of classes and
of numbers, ...ForTokenClassification, ...ForMultipleChoice. Held against each other are the losses of ten AdamW steps on
labelled texts, the logits after them and at equal weights, and the metrics of a validation pass with scikit-learn's, scipy's and seqeval's.

    head_check.py BUILD/tools [FAMILY...] [--head HEAD]

Needs PyTorch, transformers, scikit-learn, scipy and seqeval. Prints a line for each; exit status 1 when one is too far off.
"""
import argparse
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from needs import needs, tools_folder

HEADS = ("classification", "regression", "tokens", "choice")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--head", choices=HEADS)
    ARGUMENTS = parser.parse_args()
    needs("numpy", "torch", "transformers", "scipy", "seqeval", "sklearn")

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from scipy.stats import pearsonr, spearmanr  # noqa: E402
from seqeval.metrics import f1_score as entity_f1_score  # noqa: E402
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # noqa: E402

from hub_models import FAMILIES  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

CONFIG = """
[model]
pretrained = "{folder}"
head = "{head}"
{labels}
sequence = {sequence}
dropout = 0.0
[data]
train = ["{data}"]
validation = ["{data}"]
{label}
samples = "{samples}"
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
steps = 10
[checkpoint]
directory = "{out}"
"""
NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]
CLASSES = dict(zip(HEADS, (transformers.AutoModelForSequenceClassification, transformers.AutoModelForSequenceClassification,
                           transformers.AutoModelForTokenClassification, transformers.AutoModelForMultipleChoice)))
COUNT = 40


def word(draw, least=1, most=40):
    return "".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(least, most)))


class Rows:
    """Texts of one head: what is written to JSON Lines, and the batches that PyTorch gets."""

    def __init__(self, head):
        self.head = head
        draw = random.Random(4)
        self.rows = [getattr(self, head)(draw) for _ in range(COUNT)]

    def classification(self, draw):
        label = draw.randrange(3)
        return {"text": word(draw) + "xyz"[label], "label": label}

    def regression(self, draw):
        text = word(draw)
        return {"text": text, "label": round(text.count("a") - len(text) / 16, 2)}

    def tokens(self, draw):
        words = [word(draw, 1, 5) for _ in range(draw.randint(1, 6))]
        return {"tokens": words, "tags": [NAMES[draw.randrange(5)] for _ in words]}

    def choice(self, draw):
        count = 3  # transformers takes as many in each question of a batch
        return {"context": word(draw, 1, 12), "choices": [word(draw, 1, 12) for _ in range(count)], "label": draw.randrange(count)}

    def batch(self, rows, pad):
        labels = [row.get("label") for row in rows]
        texts = [row["text"].encode() for row in rows] if "text" in rows[0] else []
        if self.head == "tokens":
            texts = ["".join(row["tokens"]).encode() for row in rows]
            longest = max(map(len, texts))
            labels = []
            for row in rows:
                own = []
                for text, tag in zip(row["tokens"], row["tags"], strict=True):
                    own += [NAMES.index(tag), *[-100] * (len(text) - 1)]
                labels.append(own + [-100] * (longest - len(own)))
        if self.head == "choice":
            texts = [(row["context"] + choice).encode() for row in rows for choice in row["choices"]]
        longest = max(map(len, texts))
        ids = torch.tensor([[*text, *[pad] * (longest - len(text))] for text in texts])
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
        shape = (len(rows), -1, longest) if self.head == "choice" else (len(rows), longest)
        return {"input_ids": ids.reshape(shape), "attention_mask": mask.reshape(shape), "labels": torch.tensor(labels)}

    def metrics(self, logits, labels):
        if self.head == "regression":
            found, wanted = logits[:, 0].tolist(), labels.tolist()
            return {"pearson": pearsonr(found, wanted)[0], "spearman": spearmanr(found, wanted)[0]}
        classes = logits.argmax(-1)
        if self.head == "tokens":
            kept = [(c[l >= 0].tolist(), l[l >= 0].tolist()) for c, l in zip(classes, labels, strict=True)]
            found, wanted = [[NAMES[i] for i in c] for c, _ in kept], [[NAMES[i] for i in l] for _, l in kept]
            return {"accuracy": accuracy_score(sum(wanted, []), sum(found, [])), "f1": entity_f1_score(wanted, found)}
        found, wanted = classes.tolist(), labels.tolist()
        if self.head == "choice":
            return {"accuracy": accuracy_score(wanted, found)}
        return {"accuracy": accuracy_score(wanted, found), "f1": f1_score(wanted, found, average="macro"),
                "matthews": matthews_corrcoef(wanted, found)}


def config_of(name, head):
    config = copy.deepcopy(FAMILIES[name])
    if head == "classification":
        config.num_labels = 3
    elif head == "regression":
        config.num_labels, config.problem_type = 1, "regression"
    elif head == "tokens":
        config.id2label = dict(enumerate(NAMES))
        config.classifier_dropout = 0.0
    config.summary_first_dropout = config.classifier_dropout = 0.0
    return config


def train_ours(tools, work, name, head, samples):
    settings = {"classification": ("labels = 3", 'label = "label"'), "regression": ("", 'label = "label"'),
                "tokens": (f"label_names = {json.dumps(NAMES)}", ""), "choice": ("", "")}[head]
    (work / "run.toml").write_text(CONFIG.format(folder=work / "model", head=head, labels=settings[0], label=settings[1],
                                                 sequence=64 if head == "choice" else 41, data=work / "rows.jsonl", out=work / "out",
                                                 samples=samples))
    done = subprocess.run([tools / "l2l-train", work / "run.toml", "--quiet", "--metrics", work / "metrics.jsonl"], capture_output=True,
                          text=True, env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    losses = [json.loads(line)["loss"] for line in (work / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
    return losses, json.loads(done.stdout.splitlines()[-1])["metrics"], sorted((work / "out").glob("step-*"))[-1]


def logits_apart(tools, work, checkpoint, model, rows, head):
    """Largest relative L2 of our logits of a checkpoint to those of `model`, which has its weights, over a few texts."""
    apart = 0
    for row in rows.rows[:4]:
        batch = rows.batch([row], model.config.pad_token_id)
        ids, mask = batch["input_ids"].flatten(0, -2)[:1], batch["attention_mask"].flatten(0, -2)[:1].bool()
        ids = ids[mask].reshape(1, -1)
        (work / "ids").write_text(" ".join(map(str, ids[0].tolist())))
        subprocess.run([tools / "l2l-eval", checkpoint, "--tokens", work / "ids", "--logits", work / "logits.npy"], check=True, capture_output=True)
        found = torch.from_numpy(numpy.load(work / "logits.npy"))
        with torch.no_grad():
            expected = model(ids.reshape(1, 1, -1) if head == "choice" else ids).logits
        encoder = model.config.model_type in ("bert", "roberta")
        found, expected = (found, expected[0]) if head == "tokens" else (found[0 if encoder else -1], expected.flatten())
        apart = max(apart, float((found - expected).norm() / expected.norm()))
    return apart


def check(tools, name, head, samples):
    torch.manual_seed(3)
    model = CLASSES[head].from_config(config_of(name, head), attn_implementation="eager").float()
    for module in model.modules():  # GPT-2's dropout before its classifier of tokens is in no config
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows = Rows(head)
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        model.save_pretrained(work / "model")
        (work / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.rows))
        ours, metrics, checkpoint = train_ours(tools, work, name, head, samples)
        again, loading = type(model).from_pretrained(checkpoint, attn_implementation="eager", output_loading_info=True)
        again.eval()
        equal = logits_apart(tools, work, checkpoint, again, rows, head)
    pad = model.config.pad_token_id
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    theirs = []
    for step in range(10):
        optimizer.zero_grad()
        batch = rows.batch(rows.rows[4 * step:4 * step + 4], pad)
        logits = model.train()(**batch).logits
        # The mean over all predicted of the minibatch, as transformers' own loss, but for numbers in two dimensions.
        loss = torch.nn.functional.mse_loss(logits[:, 0], batch["labels"]) if head == "regression" else model(**batch).loss
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    with torch.no_grad():
        batch = rows.batch(rows.rows, pad)
        expected, found = model.eval()(**batch).logits, again(**batch).logits
    if head == "choice":  # one more for all choices is the same answer: its gradient is rounding alone
        expected, found = expected - expected.mean(-1, keepdim=True), found - found.mean(-1, keepdim=True)
    apart = max(abs(a - b) / max(abs(b), 1e-2) for a, b in zip(ours, theirs, strict=True))
    logits = float((expected - found).norm() / expected.norm())
    scores = rows.metrics(found, batch["labels"])
    same = metrics.keys() == scores.keys() and all(abs(metrics[name] - score) < 2e-6 for name, score in scores.items())
    lost = sorted(loading["missing_keys"]) + sorted(loading["unexpected_keys"])
    good = equal < 1e-5 and apart < 1e-4 and logits < 1e-3 and same and not lost
    print(f"{'ok ' if good else 'BAD'} {name:8} {head:14} {samples}  logits {equal:.1e}  losses {apart:.1e}  logits ten steps on {logits:.1e}  "
          f"metrics {'same' if same else f'{metrics}, expected {scores}'} {lost or ''}", flush=True)
    return good


def main(arguments):
    torch.set_num_threads(1)
    bad = 0
    for head in [arguments.head] if arguments.head else CLASSES:
        for name in arguments.families or FAMILIES:
            if (head == "choice" and name not in ("bert", "roberta")) or (head == "tokens" and name == "gemma3"):
                continue  # there is no such class
            try:
                bad += not check(arguments.tools, name, head, "padded")
            except Exception as error:  # the others are still of interest
                print(f"BAD {name:8} {head:14} {type(error).__name__}: {str(error)[:600]}", flush=True)
                bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(ARGUMENTS)
