#!/usr/bin/env python3
"""Conversations against transformers, TRL's templates and PyTorch: ids, what is learnt, and the losses of training.

    chat_check.py FOLDER_OF_THE_TOOLS [--work FOLDER]      (needs torch, transformers, tokenizers, trl)

A byte-level tokenizer is trained, and a small random Llama made by transformers. For each template, 200 conversations are
tokenized by l2l-train (the ids and flags of its cache are read) and by apply_chat_template with the assistant's mask of
the training template. Then 20 steps of AdamW, a conversation in each row, and packed, against PyTorch, which gets each
conversation alone.
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
    parser.add_argument("--work", type=pathlib.Path)
    ARGUMENTS = parser.parse_args()
    needs("numpy", "torch", "transformers", "tokenizers", "trl")

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

TEMPLATES = pathlib.Path(trl.__file__).parent / "chat_templates"
MASKED = {  # training variants: TRL's own, or the published template with the assistant's part marked as TRL marks it
    "chatml": "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}"
              "{% generation %}{{ message['content'] + '<|im_end|>\n' }}{% endgeneration %}{% else %}"
              "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}",
    "llama3": (TEMPLATES / "llama3_training.jinja").read_text(),
    "gemma": (TEMPLATES / "gemma_training.jinja").read_text(),
    "mistral": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
               "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}{% generation %}"
               "{{ message['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}",
    "zephyr": "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|assistant|>\n' }}{% generation %}"
              "{{ message['content'] + eos_token + '\n' }}{% endgeneration %}{% else %}"
              "{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' }}{% endif %}{% endfor %}",
}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<start_of_turn>", "<end_of_turn>"]
WORDS = ("the a cat dog house tree runs sits under over red blue quickly why because answer question 1 23 456 "
         "naïve Привет 世界 🙂 print(x) \n \n\n - ? ! tell me more of it please").split(" ")


def conversations(count):
    random.seed(4)
    text = lambda most: " ".join(random.choice(WORDS) for _ in range(random.randint(1, most)))
    chats = []
    for _ in range(count):
        turns = []
        for _ in range(random.randint(1, 3)):
            turns += [{"role": "user", "content": text(12)}, {"role": "assistant", "content": text(20)}]
        chats.append(turns)
    return chats


def make_tokenizer(folder, chats):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((message["content"] for chat in chats for message in chat), trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return fast


def run(command, cache):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    if done.returncode != 0:
        sys.exit(f"{command[0]}: status {done.returncode}: {done.stderr}")
    return done


CONFIG = """
[model]
pretrained = "{model}"
sequence = {sequence}
[data]
train = ["{data}"]
learn = "assistant"
template = "{template}"
samples = "{samples}"
order = "sequential"
[precision]
compute = "fp32"
[batch]
micro_batch = {micro_batch}
micro_batches = {micro_batches}
[optimizer]
learning_rate = 2e-3
weight_decay = 0.0
[run]
steps = {steps}
"""


def cached_documents(cache):
    folder = cache / "l2l/tokens"
    ids = numpy.fromfile(next(folder.glob("*.u32")), dtype=numpy.uint32)
    ends = numpy.fromfile(next(folder.glob("*.documents")), dtype=numpy.uint64).astype(int)
    return [part for part in numpy.split(ids, ends[:-1])]


def check_masks(tools, work, model, tokenizer, chats, data):
    for name, template in MASKED.items():
        cache = work / ("cache-" + name)
        config = work / "masks.toml"
        config.write_text(CONFIG.format(model=model, sequence=512, data=data, template=name, samples="padded", micro_batch=1, micro_batches=1, steps=1))
        run([tools / "l2l-train", config, "--dry-run"], cache)
        ours = cached_documents(cache)
        learnt = 0
        for number, (chat, stored) in enumerate(zip(chats, ours, strict=True)):
            theirs = tokenizer.apply_chat_template(chat, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            ids, mask = (stored & 0x3fffffff).tolist(), (stored >> 31 == 0).astype(int).tolist()
            if ids != list(theirs["input_ids"]) or mask != list(theirs["assistant_masks"]):
                sys.exit(f"{name}: conversation {number} differs:\n{ids}\n{theirs['input_ids']}\n{mask}\n{theirs['assistant_masks']}")
            learnt += sum(mask)
        print(f"{name}: ids and masks of {len(chats)} conversations are the same; {learnt} of {sum(map(len, ours))} tokens are learnt")


def reference_losses(model, documents, batches, rate):
    """Each conversation alone; the mean over the learnt tokens of the minibatch."""
    model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for batch in batches:
        count = sum(int((documents[i][1:] >> 31 == 0).sum()) for i in batch)
        total = 0.0
        optimizer.zero_grad()
        for i in batch:
            ids = torch.tensor((documents[i] & 0x3fffffff).astype(numpy.int64))
            targets = ids[1:].clone()
            targets[torch.tensor(documents[i][1:] >> 31 == 1)] = -100
            logits = model(ids[None, :-1]).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum") / count
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def packed_batches(documents, sequence, rows, steps):
    """The conversations of each step: best-fit decreasing, sequences in the order of their first conversations."""
    free, where = [], {}
    for i in sorted(range(len(documents)), key=lambda i: -(len(documents[i]) - 1)):
        need = len(documents[i]) - 1
        fitting = [b for b, room in enumerate(free) if room >= need]
        least = min((free[b] for b in fitting), default=None)
        # Of bins with as much room the one that got it last.
        chosen = max((b for b in fitting if free[b] == least), key=lambda b: stamp[b]) if fitting else len(free)
        if not fitting:
            free.append(sequence)
            stamp.append(0)
        free[chosen] -= need
        clock[0] += 1
        stamp[chosen] = clock[0]
        where.setdefault(chosen, []).append(i)
    bins = sorted((sorted(members) for members in where.values()), key=lambda members: members[0])
    return [sum((bins[(step * rows + row) % len(bins)] for row in range(rows)), []) for step in range(steps)]


stamp, clock = [], [0]


def check_losses(tools, work, model, data, steps=20):
    for samples, sequence in (("padded", 384), ("packed", 512)):
        cache, config, metrics = work / ("cache-" + samples), work / "losses.toml", work / "metrics.jsonl"
        config.write_text(CONFIG.format(model=model, sequence=sequence, data=data, template="chatml", samples=samples, micro_batch=2, micro_batches=2, steps=steps))
        run([tools / "l2l-train", config, "--metrics", metrics], cache)
        ours = [json.loads(line)["loss"] for line in metrics.read_text().splitlines() if '"loss"' in line]
        metrics.unlink()
        documents = cached_documents(cache)
        if samples == "padded":
            batches = [[(4 * step + row) % len(documents) for row in range(4)] for step in range(steps)]
        else:
            batches = packed_batches(documents, sequence, 4, steps)
        theirs = reference_losses(model, documents, batches, 2e-3)
        worst = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
        print(f"{samples}: {steps} losses from {ours[0]:.4f} to {ours[-1]:.4f} follow PyTorch's to {worst:.1e}")
        if worst > 1e-4:
            sys.exit(f"{ours}\n{theirs}")


# What a template begins the assistant's turn with where it is asked for one; the others have that in their own text.
PROMPTS = {name: MASKED[name] + "{% if add_generation_prompt %}{{ '" + begin + "' }}{% endif %}" for name, begin in (
    ("chatml", "<|im_start|>assistant\n"), ("zephyr", "<|assistant|>\n"), ("mistral", ""))}
PROMPTS.update({name: MASKED[name] for name in ("llama3", "gemma")})


def greedy(model, prompt, count):
    """The likeliest tokens, until two are as likely."""
    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        best, second = logits.topk(2).values.tolist()
        if best - second < 1e-4:
            break
        ids.append(int(logits.argmax()))
    return ids[len(prompt):]


def check_prompts(tools, work, folder, tokenizer, chats, tokens=8):
    """What l2l-sample --chat answers to the first messages is what transformers generates."""
    questions = sorted({chat[0]["content"] for chat in chats if chat[0]["content"].strip() == chat[0]["content"]})[:20]
    (work / "questions.jsonl").write_text("".join(json.dumps({"prompt": question}) + "\n" for question in questions))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for name, template in PROMPTS.items():
        done = run([tools / "l2l-sample", folder, "--prompts", work / "questions.jsonl", "--chat", "--template", name,
                    "--tokens", tokens, "--temperature", 0, "--no-stop"], work)
        same = 0
        for question, line in zip(questions, done.stdout.splitlines(), strict=True):
            ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], chat_template=template,
                                                add_generation_prompt=True, return_dict=True)["input_ids"]
            answer = greedy(model, ids, tokens)
            if not json.loads(line)["text"].startswith(tokenizer.decode(answer, skip_special_tokens=True).rstrip("\ufffd")):
                sys.exit(f"{name}: to {question!r}\n{line}\n{tokenizer.decode(answer)!r}")
            same += len(answer)
        print(f"{name}: {len(questions)} answers, {same} tokens, are those of transformers")


def main(arguments):
    tools = arguments.tools
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.work or pathlib.Path(temporary)).resolve()
        os.chdir(work)
        chats, model, data = conversations(200), work / "model", work / "chats.jsonl"
        data.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
        tokenizer = make_tokenizer(model, chats)
        torch.manual_seed(3)
        config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
        transformers.LlamaForCausalLM(config).save_pretrained(model)
        check_masks(tools, work, model, tokenizer, chats, data)
        check_prompts(tools, work, model, tokenizer, chats)
        check_losses(tools, work, model, data)


if __name__ == "__main__":
    main(ARGUMENTS)
