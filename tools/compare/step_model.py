#!/usr/bin/env python3
"""A relay step on GPUs that are not at hand, from published rates: a model of the schedule, not a measurement.

  python3 tools/compare/step_model.py            Llama-3.1-8B and 70B on three cards, several batches: tokens/s, and the busiest engine
  python3 tools/compare/step_model.py --check    the model beside what was measured (docs/benchmarks.md, On a GPU)

Modelled: the order of visits (embedding, blocks, head, blocks, embedding); two slots each for weights and for gradients; one
queue for each direction of the link; a limited number of host buffers for gradients; of the gradients that have arrived, those
of the layer that the next forward pass needs first are applied first; a forward visit waits for its layer's update. Blocks are
recomputed, the stash is on the host. Visits take their operations over the rates below. Not modelled: microbatches, memory of
the device, how many bytes a host has (the last column says what it needs). Only the rate of updates on 16 cores was taken from
a measured step (Llama-7B's).
"""
import argparse
import collections
import dataclasses

GB, TERA = 1e9, 1e12


@dataclasses.dataclass(frozen=True)
class Card:
    name: str
    products: float  # FLOP/s of large bf16 products
    attention: tuple  # of the causal forward and backward pass, half of the operations counted
    memory: float  # bytes/s
    link: float  # bytes/s, each way while the other is busy


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    blocks: int
    width: int
    inner: int
    heads: int
    groups: int  # of heads that share keys and values
    vocabulary: int
    gated: bool = True
    tied: bool = False  # the head multiplies by the embedding's table

    @property
    def head_width(self):
        return self.width // self.heads

    @property
    def block_parameters(self):
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.groups)
        return attention + (3 if self.gated else 2) * self.width * self.inner

    @property
    def parameters(self):
        return self.blocks * self.block_parameters + (1 if self.tied else 2) * self.vocabulary * self.width


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    update: float  # bytes/s of master, moments and gradients that an update streams
    bytes_per_parameter: float = 26  # split master, fp32 moments, bf16 gradients and wire


# Measured (docs/benchmarks.md, On a GPU).
H100 = Card("H100 SXM, PCIe 5", 715 * TERA, (499 * TERA, 365 * TERA), 3.0e12, 49 * GB)
# The same chip; memory at the share of 4.8 TB/s that the H100 reaches of its 3.35.
H200 = Card("H200, PCIe 5", 715 * TERA, (499 * TERA, 365 * TERA), 4.3e12, 49 * GB)
# Products as measured by others (stas00/ml-engineering, "maximum achievable matmul FLOPS": 271.2); 2.0 TB/s and 32 GB/s each way
# by the data sheet, at the shares of them that the H100 reaches of its 3.35 and 63; attention at the H100's shares of products.
A100 = Card("A100 SXM, PCIe 4", 271 * TERA, (189 * TERA, 138 * TERA), 1.8e12, 25 * GB)

SIXTEEN_CORES = Host("16 cores", 112 * GB)  # measured: AdamW beside a GPU that works
SOCKET = Host("8 channels of DDR5-4800", (307 - 2 * 49) * GB)  # less what both directions of PCIe 5 can take

LLAMA_7B = Model("Llama-7B", 32, 4096, 11008, 32, 32, 32000)
LLAMA_8B = Model("Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128256)
LLAMA_70B = Model("Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128256)
TURING = Model("Turing-NLG's shape, 37 of 78 blocks", 37, 4256, 4 * 4256, 28, 28, 50257, gated=False, tied=True)


@dataclasses.dataclass
class Times:
    """Seconds of one visit of a block, or of the head."""

    forward: float
    backward: float  # recomputation included
    weights: float  # one copy over the link
    gradients: float
    stash: float  # of one layer's inputs
    update: float


def block_times(model, card, host, tokens, length):
    products = 2 * model.block_parameters * tokens / card.products
    attention = 2 * tokens * length * model.width  # half of 4 tokens x length x width
    # norms, rotary positions, the activation and sums, in bf16: each array read or written once
    arrays = 10 * model.width + (3 if model.gated else 2) * model.inner + 2 * model.head_width * (model.heads + model.groups)
    passes = 2 * tokens * arrays / card.memory
    forward = products + attention / card.attention[0] + passes
    backward = forward + 2 * products + 2.5 * attention / card.attention[1] + 2 * passes
    wire = 2 * model.block_parameters / card.link
    update = model.block_parameters * host.bytes_per_parameter / host.update
    return Times(forward, backward, wire, wire, 2 * tokens * model.width / card.link, update)


def head_times(model, card, host, tokens):
    parameters = model.vocabulary * model.width
    products = 2 * parameters * tokens / card.products
    softmax = 3 * 4 * tokens * model.vocabulary / card.memory  # fp32 logits: written, read, written as gradients
    wire = 2 * parameters / card.link
    return Times(0, 4 * products + 2 * softmax, wire, wire, 0, parameters * host.bytes_per_parameter / host.update)


class Engines:
    """When each resource is free next, and how long it has worked."""

    def __init__(self):
        self.free = collections.defaultdict(float)
        self.busy = collections.defaultdict(float)

    def run(self, engine, seconds, *after):
        """Work that begins when the engine is free and all of `after` have passed; its end."""
        end = max(self.free[engine], *after) + seconds
        self.free[engine] = end
        self.busy[engine] += seconds
        return end


class Updates:
    """The parameter server: one update at a time, of those whose gradients are there the one that is needed first."""

    def __init__(self, engines, buffers):
        self.engines, self.buffers = engines, buffers
        self.waiting = []  # (place in the forward pass, arrival, seconds)
        self.ends = []  # of all updates so far

    def update_one(self):
        arrived = max(self.engines.free["updates"], min(arrival for _, arrival, _ in self.waiting))
        first = min(entry for entry in self.waiting if entry[1] <= arrived)
        self.waiting.remove(first)
        self.ends.append(self.engines.run("updates", first[2], first[1]))

    def room(self, now):
        """When a buffer is free for a copy that could begin at `now`."""
        while True:
            held = sorted(end for end in self.ends if end > now)
            missing = len(self.waiting) + len(held) - self.buffers + 1
            if missing <= len(held):
                return held[missing - 1] if missing > 0 else now
            self.update_one()

    def add(self, place, arrival, seconds):
        self.waiting.append((place, arrival, seconds))

    def version(self, place):
        """When the weights of a layer are up to date; 0: they are."""
        end = 0
        while any(entry[0] == place for entry in self.waiting):
            self.update_one()
            end = self.ends[-1]
        return end


def default_buffers(model):
    """The largest gradients (2 bytes) that fit into a twentieth of weights and state (12 bytes per parameter); at least 3."""
    return max(3, int(0.05 * 12 * model.parameters / (2 * max(model.block_parameters, model.vocabulary * model.width))))


def host_bytes(model, tokens):
    """Weights and state in bf16 with fp32 moments, and the stash."""
    return 12 * model.parameters + 2 * tokens * model.width * model.blocks


def step_seconds(model, card, host, tokens, length, buffers=None, steps=4):
    """Seconds of a step in the steady state, and the share of it that each engine works."""
    buffers = buffers or default_buffers(model)
    block, head = block_times(model, card, host, tokens, length), head_times(model, card, host, tokens)
    table = Times(0, 0, head.weights, head.gradients, 0, head.update)  # the embedding: rows are looked up and summed
    engines = Engines()
    updates = Updates(engines, buffers)
    computed, drained = [], []  # ends of visits and of copies of gradients
    begins = [0.0]

    def visit(times, seconds, version, *after, copied=True):
        weights = engines.run("to device", times.weights, version, *computed[-2:-1]) if copied else 0
        computed.append(engines.run("compute", seconds, weights, *after))

    def drain(times, place, updated=True):
        ready = max(engines.free["to host"], computed[-1])
        drained.append(engines.run("to host", times.gradients, updates.room(ready), computed[-1]))
        if updated:
            updates.add(place, drained[-1], times.update)

    for _ in range(steps):
        before = dict(engines.busy)
        stashed = {}
        visit(table, 0, updates.version(0))
        for layer in range(1, model.blocks + 1):
            visit(block, block.forward, updates.version(layer))
            stashed[layer] = engines.run("to host", block.stash, computed[-1] - block.forward)
        visit(head, head.backward, updates.version(model.blocks + 1), *drained[-2:-1])
        drain(head, model.blocks + 1, updated=not model.tied)
        for layer in range(model.blocks, 0, -1):
            fetched = engines.run("to device", block.stash, stashed[layer], *computed[-2:-1])
            visit(block, block.backward, 0, fetched, *drained[-2:-1], copied=layer != model.blocks)
            drain(block, layer)
        visit(table, 0, 0, *drained[-2:-1], copied=False)
        drain(table, 0)
        begins.append(computed[-1])
    seconds = begins[-1] - begins[-2]
    return seconds, {name: (engines.busy[name] - before.get(name, 0)) / seconds for name in engines.busy}


def busiest(shares):
    name = max(shares, key=shares.get)
    return f"{name} {100 * shares[name]:.0f}%"


def teraflops(model, tokens, seconds):
    return 8 * model.parameters * tokens / seconds / TERA


MEASURED = [  # model, card, tokens, length, buffers, tokens/s
    (LLAMA_7B, H100, 16384, 2048, None, 9883),
    (LLAMA_7B, H100, 16384, 2048, 3, 8774),
    (LLAMA_7B, H200, 16384, 2048, None, 10016),
    (LLAMA_7B, H200, 16384, 2048, 3, 7868),
    (dataclasses.replace(LLAMA_7B, name="8 of its blocks", blocks=8), H100, 65536, 2048, None, 41491),
    (TURING, dataclasses.replace(H100, attention=(314 * TERA, 147 * TERA)), 16384, 1024, None, 6796),  # heads of 152
]


def check():
    print("| model | card | tokens per step | buffers | model, tokens/s | measured | model / measured |\n|---|---|---|---|---|---|---|")
    for model, card, tokens, length, buffers, measured in MEASURED:
        seconds, _ = step_seconds(model, card, SIXTEEN_CORES, tokens, length, buffers)
        print(f"| {model.name} | {card.name} | {tokens:,} | {buffers or default_buffers(model)} | {tokens / seconds:,.0f} | {measured:,} "
              f"| {tokens / seconds / measured:.2f} |")


def predict(length):
    print("| model | card | host | tokens per step | tokens/s | TFLOP/s, 8 per parameter | busiest | host memory, GB |\n|---|---|---|---|---|---|---|---|")
    for model in (LLAMA_8B, LLAMA_70B):
        for card in (A100, H100, H200):
            for host in (SIXTEEN_CORES, SOCKET):
                for sequences in (4, 16, 64):
                    tokens = sequences * length
                    seconds, shares = step_seconds(model, card, host, tokens, length)
                    print(f"| {model.name} | {card.name} | {host.name} | {tokens:,} | {tokens / seconds:,.0f} "
                          f"| {teraflops(model, tokens, seconds):.0f} | {busiest(shares)} | {host_bytes(model, tokens) / GB:,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="beside what was measured")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence (default: %(default)s)")
    arguments = parser.parse_args()
    check() if arguments.check else predict(arguments.length)


if __name__ == "__main__":
    main()
