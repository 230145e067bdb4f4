#!/usr/bin/env python3
"""Compares L2L with transformers on small models of every family: logits, exported files, trained steps.

    hub_check.py BUILD/tools [NAME or DIRECTORY...]

A directory is that of an encoder, of which hidden states and pooler are compared. Needs PyTorch, transformers,
safetensors. Prints a line for each model; exit status 1 when one is too far off.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("names", nargs="*")
    ARGUMENTS = parser.parse_args()
    needs("numpy", "torch", "transformers", "safetensors")

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import safe_open  # noqa: E402

import hub_models  # noqa: E402

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

TOKENS = 24


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def tensors_of(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("model*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                found[name] = file.get_tensor(name)
    return found


def relative(ours, theirs):
    return float(numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs))


def logits_of(tools, folder, ids, out, *more):
    tokens = out.with_suffix(".txt")
    tokens.write_text(" ".join(map(str, ids)))
    run(tools / "l2l-eval", folder, "--tokens", tokens, "--logits", out, *more)
    return numpy.load(out)


def check_logits(tools, model, folder, work):
    ids = torch.randint(2, model.config.vocab_size, (TOKENS,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        theirs = model(input_ids=ids[None]).logits[0].float().numpy()
    worst = 0
    for more in ([], ["--set", "model.attention=core"], ["--set", "transfer.vocabulary_chunk=40"]):
        ours = logits_of(tools, folder, ids.tolist(), work / "logits.npy", *more)
        worst = max(worst, relative(ours, theirs))
    return worst


def check_bf16(tools, name, model, folder, work):
    """How far bf16 is from fp32, over how far PyTorch's bf16 is."""
    ids = torch.randint(2, model.config.vocab_size, (TOKENS,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        exact = model(input_ids=ids[None]).logits[0].numpy()
        theirs = hub_models.make(name, torch.bfloat16)(input_ids=ids[None]).logits[0].float().numpy()
    ours = logits_of(tools, folder, ids.tolist(), work / "logits.npy", "--set", "precision.compute=bf16")
    return relative(ours, exact) / relative(theirs, exact)


def check_export(tools, model, folder, work):
    """Names, types and bytes are those that save_pretrained() wrote; the export loads in transformers."""
    out = work / "exported"
    run(tools / "l2l-export", folder, out, "--max-shard-size", "60KB")
    ours, theirs = tensors_of(out), tensors_of(folder)
    if set(ours) != set(theirs):
        return f"names differ: {sorted(set(ours) ^ set(theirs))}"
    for name, tensor in theirs.items():
        if ours[name].dtype != tensor.dtype or not torch.equal(ours[name], tensor):
            return f"{name} differs"
    again = type(model).from_pretrained(out, attn_implementation="eager").eval()
    for name, parameter in model.state_dict().items():
        if not torch.equal(parameter, again.state_dict()[name]):
            return f"{name} differs after from_pretrained()"
    ids = torch.arange(2, 2 + TOKENS)[None]
    with torch.no_grad():
        if not torch.equal(model(input_ids=ids).logits, again(input_ids=ids).logits):
            return "logits differ after from_pretrained(): the exported config.json is another"
    return None


def check_greedy(tools, model, folder):
    """The same tokens until two logits come closer than 1e-4."""
    if model.config.model_type in ("bert", "roberta"):
        return True
    ids, count = [5, 9, 2], 12
    ours = run(tools / "l2l-sample", folder, "--ids", ",".join(map(str, ids)), "--tokens", count, "--temperature", 0)
    for token in map(int, ours.split()):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].float()
        best, second = logits.topk(2).values.tolist()
        if best - second < 1e-4:
            return True
        if token != int(logits.argmax()):
            return False
        ids.append(token)
    return True


CONFIG = """
[model]
pretrained = "{folder}"
sequence = 16
dropout = 0.0
[data]
train = ["{data}"]
format = "tokens"
[precision]
compute = "fp32"
[batch]
micro_batch = 2
micro_batches = 2
[optimizer]
learning_rate = 2e-3
weight_decay = 0.0
[run]
steps = {steps}
[checkpoint]
directory = "{out}"
"""


def philox(key, counter):
    """Philox4x32-10 (Salmon et al., 2011): four 32-bit words of a counter of four, by a key of two."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return c


def masked(ids, vocabulary, position, share=0.15, seed=1, layer=0xFFFFFFFF, draw=7):
    """Tokens and targets (-100: none) of sample `position` as an encoder is trained on them (runtime/data/masking.h)."""
    mask, left = vocabulary - 1, len(ids)
    wanted = max(1, int(share * left + 0.5))
    tokens, targets = list(ids), [-100] * left
    for i, token in enumerate(ids):
        words = philox((seed, 0), (i, draw, layer, position))
        if words[0] * (len(ids) - i) < wanted << 32:
            wanted -= 1
            targets[i] = token
            other = words[2] * mask >> 32
            tokens[i] = mask if words[1] < 3435973837 else token if words[1] >= 3865470566 else other
    return tokens, targets


def batch_of(model, ids, step):
    """Inputs and targets of a step of CONFIG: four samples of the same 16 tokens."""
    if model.config.model_type not in ("bert", "roberta"):
        return ids[None, :16], ids[None, 1:17]
    samples = [masked(ids[:16].tolist(), model.config.vocab_size, 4 * step + i) for i in range(4)]
    return tuple(torch.tensor([sample[part] for sample in samples]) for part in (0, 1))


def loss_of(model, batch):
    logits = model(input_ids=batch[0]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), batch[1].flatten())


def check_training(tools, model, folder, work, steps=10):
    """Ten AdamW steps on one repeated window: losses follow PyTorch's. Returns the largest relative difference."""
    data = work / "tokens.bin"
    ids = torch.randint(2, model.config.vocab_size, (17,), generator=torch.Generator().manual_seed(5))
    ids.numpy().astype("<u2").tofile(data)
    config = work / "config.toml"
    config.write_text(CONFIG.format(folder=folder, data=data, steps=steps, out=work / "run"))
    run(tools / "l2l-train", config, "--metrics", work / "metrics.jsonl", "--quiet")
    ours = [json.loads(line)["loss"] for line in (work / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
    model = model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    theirs = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch_of(model, ids, step))
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    checkpoint = sorted((work / "run").glob("step-*"))[-1]
    again = type(model).from_pretrained(checkpoint, attn_implementation="eager").eval()
    trained = {name: parameter.detach() for name, parameter in model.state_dict().items()}
    apart = sum(float((again.state_dict()[name] - parameter).square().sum()) for name, parameter in trained.items())
    whole = sum(float(parameter.square().sum()) for parameter in trained.values())
    return max(abs(a - b) / b for a, b in zip(ours, theirs)), (apart / whole) ** 0.5


def check_gradients(tools, model, folder, work):
    """One step of plain gradient descent at rate 1: what the weights have moved by is the gradient."""
    ids = torch.randint(2, model.config.vocab_size, (17,), generator=torch.Generator().manual_seed(5))
    data = work / "tokens.bin"
    ids.numpy().astype("<u2").tofile(data)
    config = work / "gradients.toml"
    config.write_text(CONFIG.format(folder=folder, data=data, steps=1, out=work / "moved")
                      .replace("learning_rate = 2e-3", 'name = "sgd"\nmomentum = 0.0\nlearning_rate = 1.0'))
    run(tools / "l2l-train", config, "--quiet")
    loss_of(model, batch_of(model, ids, 0)).backward()
    moved = type(model).from_pretrained(sorted((work / "moved").glob("step-*"))[-1], attn_implementation="eager")
    moved = dict(moved.named_parameters())
    apart = whole = 0.0
    for name, parameter in model.named_parameters():
        gradient = parameter.detach().double() - moved[name].detach().double()
        apart += float((gradient - parameter.grad.double()).square().sum())
        whole += float(parameter.grad.double().square().sum())
    return (apart / whole) ** 0.5


def show_progress(name, what):
    print(f"{name}: {what}", file=sys.stderr, flush=True)


def check(tools, name):
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        model = hub_models.make(name)
        folder = work / "model"
        model.save_pretrained(folder)
        error = check_logits(tools, model, folder, work)
        rounding = check_bf16(tools, name, model, folder, work)
        show_progress(name, "logits are compared")
        export = check_export(tools, model, folder, work)
        greedy = check_greedy(tools, hub_models.make(name), folder)
        show_progress(name, "exported files and greedy text are compared")
        # A new one: positions that are scaled "dynamic" depend on what the model has seen before.
        gradients = check_gradients(tools, hub_models.make(name), folder, work)
        show_progress(name, "gradients are compared")
        training = check_training(tools, hub_models.make(name), folder, work)
    good = error < 1e-5 and rounding < 1.5 and export is None and greedy
    good = good and gradients < 1e-5 and training[0] < 1e-4 and training[1] < 1e-3
    shown = f"  gradients {gradients:.1e}  losses {training[0]:.1e}  weights {training[1]:.1e}"
    print(f"{'ok ' if good else 'BAD'} {name:20} logits {error:.1e}  bf16 {rounding:.2f}  export {export or 'same'}  greedy {'same' if greedy else 'OTHER'}{shown}", flush=True)
    return good


def check_encoder(tools, folder):
    """Hidden states and the pooler's output of an encoder without a head (MiniLM of the sentence transformers)."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.randint(1000, model.config.vocab_size, (64,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        theirs = model(input_ids=ids[None])
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        (work / "ids").write_text(" ".join(map(str, ids.tolist())))
        run(tools / "l2l-eval", folder, "--tokens", work / "ids", "--hidden", work / "hidden.npy",
            "--pooled", work / "pooled.npy", "--set", "model.new_head=true")
        hidden = relative(numpy.load(work / "hidden.npy"), theirs.last_hidden_state[0].numpy())
        pooled = relative(numpy.load(work / "pooled.npy")[0], theirs.pooler_output[0].numpy())
    good = hidden < 1e-5 and pooled < 1e-5
    print(f"{'ok ' if good else 'BAD'} {pathlib.Path(folder).name:20} hidden states {hidden:.1e}  pooler {pooled:.1e}", flush=True)
    return good


def main(arguments):
    torch.set_num_threads(1)
    bad = 0
    for name in arguments.names or hub_models.MODELS:
        try:
            bad += not (check if name in hub_models.MODELS else check_encoder)(arguments.tools, name)
        except Exception as error:  # the others are still of interest
            print(f"BAD {name:20} {type(error).__name__}: {str(error)[:600]}", flush=True)
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(ARGUMENTS)
