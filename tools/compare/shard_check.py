#!/usr/bin/env python3
"""Shards made by other projects' writers: l2l-train reads what their own readers read.

    shard_check.py FOLDER_OF_THE_TOOLS         (needs numpy, xxhash, megatron-core)

Compared are the hashes of the training data that checkpoints hold (docs/data.md): of the ids, and where documents are told
apart, of ids and documents. Writers and readers: megatron-core's IndexedDatasetBuilder and IndexedDataset; NumPy's save and
load; ndarray.tofile as nanoGPT's prepare.py uses it; llm.c's header as its dev/data/data_common.py writes it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    TOOLS = parser.parse_args().tools
    needs("numpy", "xxhash", "megatron", "torch")

import numpy  # noqa: E402
import xxhash  # noqa: E402

warnings.filterwarnings("ignore")
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder  # noqa: E402
import torch  # noqa: E402

CONFIG = """
[model]
architecture = "llama"
layers = 1
hidden = 16
heads = 2
vocabulary = {vocabulary}
sequence = 64
dropout = 0.0
[data]
train = ["{data}"]
format = "{format}"
samples = "{samples}"
[precision]
compute = "fp32"
[batch]
micro_batch = 1
micro_batches = 1
[run]
steps = 1
"""


def hash_of_ids(ids):
    return xxhash.xxh64(ids.tobytes()).intdigest()


def hash_of_documents(ids, ends, kind=1):
    stream = hash_of_ids(ids).to_bytes(8, "little")
    return xxhash.xxh64(stream + numpy.asarray(ends, dtype=numpy.uint64).tobytes() + bytes([kind])).intdigest()


def trained_hash(tools, work, data, format, samples="stream", vocabulary=70000):
    config = work / "run.toml"
    config.write_text(CONFIG.format(data=data, format=format, samples=samples, vocabulary=vocabulary))
    folder = work / "out"
    done = subprocess.run([str(tools / "l2l-train"), str(config), "--set", f"checkpoint.directory={folder}"], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
    if done.returncode != 0:
        sys.exit(done.stderr)
    newest = max(folder.glob("step-*"))
    return int(json.loads((newest / "manifest.json").read_text())["data_hash"], 16)


def main(tools):
    random = numpy.random.default_rng(5)
    lengths = random.integers(1, 200, 300)
    results = []

    def check(name, ours, theirs):
        results.append(ours == theirs)
        print(f"{name}: {'the same' if ours == theirs else 'DIFFERS'}")

    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        for width, format in ((numpy.uint16, "tokens"), (numpy.uint32, "tokens32")):
            ids = random.integers(0, 65536 if width == numpy.uint16 else 70000, 30000).astype(width)
            name = numpy.dtype(width).name
            ids.tofile(work / "raw.dat")
            check(f"nanoGPT {name}", trained_hash(tools, work, work / "raw.dat", format), hash_of_ids(numpy.fromfile(work / "raw.dat", dtype=width)))
            numpy.save(work / "one.npy", ids)
            check(f"npy {name}", trained_hash(tools, work, work / "one.npy", "auto"), hash_of_ids(numpy.load(work / "one.npy")))
            numpy.save(work / "two.npy", ids.reshape(300, 100))
            rows = numpy.load(work / "two.npy")
            check(f"npy {name}, two dimensions", trained_hash(tools, work, work / "two.npy", "auto", "packed"),
                  hash_of_documents(rows.reshape(-1), [100 * (i + 1) for i in range(300)]))
            header = numpy.zeros(256, dtype=numpy.int32)
            header[:3] = (20240520, 1, len(ids)) if width == numpy.uint16 else (20240801, 7, len(ids))
            with open(work / "llmc.bin", "wb") as file:
                file.write(header.tobytes())
                file.write(ids.tobytes())
            check(f"llm.c {name}", trained_hash(tools, work, work / "llmc.bin", "auto"),
                  hash_of_ids(numpy.fromfile(work / "llmc.bin", dtype=width, offset=1024)))
        for dtype in (numpy.uint16, numpy.int32):
            prefix = work / ("megatron-" + numpy.dtype(dtype).name)
            builder = IndexedDatasetBuilder(str(prefix) + ".bin", dtype=dtype)
            for length in lengths:
                document = random.integers(0, 65536 if dtype == numpy.uint16 else 70000, length)
                builder.add_document(torch.from_numpy(document), [int(length)])
            builder.finalize(str(prefix) + ".idx")
            theirs = IndexedDataset(str(prefix), mmap=False)
            sequences = [numpy.asarray(theirs[i]) for i in range(len(theirs))]
            ends = numpy.cumsum([len(sequence) for sequence in sequences])[numpy.asarray(theirs.document_indices[1:]) - 1]
            ids = numpy.concatenate(sequences).astype(numpy.uint16 if dtype == numpy.uint16 else numpy.uint32)
            name = f"Megatron {numpy.dtype(dtype).name}"
            check(name, trained_hash(tools, work, str(prefix) + ".bin", "auto"), hash_of_ids(ids))
            check(name + ", documents", trained_hash(tools, work, str(prefix) + ".bin", "auto", "packed"), hash_of_documents(ids, ends))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main(TOOLS)
