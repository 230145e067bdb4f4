"""Models that the comparisons and the performance table train, and how L2L runs one of them."""
import dataclasses
import json
import pathlib
import subprocess
import tempfile


@dataclasses.dataclass(frozen=True)
class Shape:
    """`micro_batch` sequences of `sequence` tokens per microbatch, `micro_batches` of them per step; no dropout."""
    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    sequence: int
    micro_batch: int
    micro_batches: int
    optimizer: str = "adamw"

    def tokens(self):
        return self.micro_batch * self.micro_batches * self.sequence

    def parameters(self):
        head = self.hidden // self.heads
        attention = self.hidden * head * (2 * self.heads + 2 * self.kv_heads)
        mlp = self.hidden * self.intermediate * (3 if self.architecture == "llama" else 2)
        tables = self.vocabulary * self.hidden * (2 if self.architecture == "llama" else 1)
        return self.layers * (attention + mlp) + tables


SHAPES = {
    # The paper's model and batch; LAMB as there.
    "bert-large": Shape("bert", 24, 1024, 16, 16, 4096, 30522, 512, 64, 1, "lamb"),
    "gpt2-xl": Shape("gpt2", 48, 1600, 25, 25, 6400, 50257, 1024, 4, 4),
    # Turing-NLG (17B): 78 such layers; as many as host memory holds.
    "turing-nlg": Shape("gpt2", 78, 4256, 28, 28, 17024, 50257, 1024, 4, 4),
    "llama-7b": Shape("llama", 32, 4096, 32, 32, 11008, 32000, 2048, 4, 2),
    # Small enough to try the scripts with.
    "tiny-bert": Shape("bert", 2, 64, 4, 4, 256, 300, 32, 2, 2, "lamb"),
    "tiny-gpt2": Shape("gpt2", 2, 64, 4, 4, 256, 300, 32, 2, 2),
    "tiny-llama": Shape("llama", 2, 64, 4, 2, 192, 300, 32, 2, 2),
}


def config_of(shape, execution, extra):
    """A run of `shape` in TOML. `extra`: {"section.key": value in TOML}, which goes before what is here."""
    values = {
        "model.architecture": f'"{shape.architecture}"', "model.layers": shape.layers, "model.hidden": shape.hidden,
        "model.heads": shape.heads, "model.intermediate": shape.intermediate, "model.vocabulary": shape.vocabulary,
        "model.sequence": shape.sequence, "model.dropout": 0, "batch.micro_batch": shape.micro_batch,
        "batch.micro_batches": shape.micro_batches, "optimizer.name": f'"{shape.optimizer}"',
        "optimizer.learning_rate": 1e-4, "precision.compute": '"bf16"', "device.execution": f'"{execution}"',
        "transfer.stash": '"host"' if execution == "relay" else '"device"', "recompute.policy": '"full"',
    }
    if shape.architecture == "llama":
        values |= {"model.kv_heads": shape.kv_heads, "model.tie_embeddings": "false"}
    values |= extra
    sections = {}
    for key, value in values.items():
        section, name = key.split(".")
        sections.setdefault(section, []).append(f"{name} = {value}")
    return "\n".join(f"[{section}]\n" + "\n".join(lines) for section, lines in sections.items()) + "\n"


def run_json(command, seconds=None, **options):
    """The JSON object that is the command's last line, or {"error": the last line of its messages}, with "timed_out" where
    `seconds` were too few."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=seconds,
                              **options)
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {seconds:.0f} s", "timed_out": True}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def run_l2l(tools, shape, execution="relay", steps=3, extra=None, seconds=None):
    """The JSON object of `l2l-bench step`, or {"error": its message}."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "run.toml")
        config.write_text(config_of(shape, execution, extra or {}))
        command = [pathlib.Path(tools).resolve() / "l2l-bench", "step", config, "--steps", steps, "--json"]
        return run_json(command, seconds)
