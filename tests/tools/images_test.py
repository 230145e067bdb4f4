"""RevBiFPN from a config, on image files: the same images as PNG, CIFAR-10 and NumPy files give the same weights; a run that
is killed goes on with the same augmentation; l2l-eval tells the accuracy; and what is refused.

    images_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

SIDE, CLASSES, OF_EACH = 32, 3, 8
CONFIG = """
[model]
architecture = "revbifpn"
image_size = {size}
dropout = 0.1
{model}
[data]
train = {train}
{data}
[batch]
micro_batch = 4
micro_batches = 2
[run]
steps = 3
"""


def image(label, number):
    """[32][32][3] bytes: a bar that lies, stands or is not there, with noise."""
    source = random.Random(100 * label + number)
    at = source.randrange(8, 24)

    def pixel(row, column):
        bar = (label == 0 and abs(row - at) < 3) or (label == 1 and abs(column - at) < 3)
        return [source.randrange(40) + (180 if bar else 40) for _ in range(3)]

    return [[pixel(row, column) for column in range(SIDE)] for row in range(SIDE)]


def png(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = len(pixels), len(pixels[0])
    lines = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def npy(dtype, shape, data):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def interleaved(pixels):
    return bytes(value for row in pixels for pixel in row for value in pixel)


def planar(pixels):
    return bytes(pixel[color] for color in range(3) for row in pixels for pixel in row)


@unittest.skipIf(os.environ.get("L2L_PNG") == "0", "this build reads no PNG")
class Images(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        images = [(label, image(label, number)) for label in range(CLASSES) for number in range(OF_EACH)]
        for i, (label, pixels) in enumerate(images):
            place = self.path / "images" / ("lies", "stands", "without")[label] / f"{i:03}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(png(pixels))
        (self.path / "images.bin").write_bytes(b"".join(bytes([label]) + planar(pixels) for label, pixels in images))
        count = len(images)
        (self.path / "pixels.npy").write_bytes(npy("|u1", (count, SIDE, SIDE, 3), b"".join(interleaved(each) for _, each in images)))
        (self.path / "classes.npy").write_bytes(npy("<i8", (count,), struct.pack(f"<{count}q", *(label for label, _ in images))))

    def config(self, train='["images"]', model="", data="", size=SIDE):
        (self.path / "run.toml").write_text(CONFIG.format(train=train, model=model, data=data, size=size))

    def tool(self, name, *arguments, status=0):
        done = subprocess.run([TOOLS / name, *arguments], cwd=self.path, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def train(self, *arguments, status=0):
        return self.tool("l2l-train", "run.toml", *arguments, status=status)

    def summary(self, *arguments):
        return json.loads(self.train("--quiet", *arguments).stdout)

    def weights(self, *arguments):
        return self.summary(*arguments)["weights_hash"]

    @unittest.skipIf(os.environ.get("L2L_SANITIZED") == "1", "instrumented builds take several times the memory")
    def test_memory_is_within_two_percent_of_the_prediction(self):
        self.config()  # sixteen hundred tensors, and as many products
        summary = self.summary()
        self.assertLess(abs(summary["host_bytes"] / summary["predicted_host_bytes"] - 1), 0.02, summary)

    def test_all_formats_give_the_same_weights(self):
        hashes = set()
        for train in ('["images"]', '["images/**/*.png"]', '["images.bin"]', '["pixels.npy", "classes.npy"]'):
            self.config(train, model=f"labels = {CLASSES}")
            hashes.add(self.weights())
        self.assertEqual(len(hashes), 1)
        self.config(model=f"labels = {CLASSES}", data='order = "sequential"')
        self.assertNotIn(self.weights(), hashes)

    def test_classes_are_those_of_the_folders(self):
        self.config()
        checkpoint = 'checkpoint.directory="saved"'
        progress = self.train("--set", checkpoint).stderr
        self.assertRegex(progress, r"step 3/3 +loss \d+\.\d+ +\d+ samples/s")
        evaluation = json.loads(self.tool("l2l-eval", "saved", "--data", "images/stands").stdout)
        self.assertEqual(set(evaluation["metrics"]), {"accuracy", "accuracy_top5"})
        self.assertEqual(evaluation["metrics"]["accuracy_top5"], 1, "there are three classes")
        self.config('["images.bin"]')
        refused = self.train("--set", 'data.validation=["images"]', status=2)
        self.assertIn("model.label_names", refused.stderr)
        names = 'model.label_names=["without", "stands", "lies", "a", "b", "c", "d", "e", "f", "g"]'
        self.train("--set", 'data.validation=["images"]', "--set", names)
        self.config('["images/lies"]')
        self.assertIn("all images lie in one folder", self.train(status=2).stderr)
        self.config()
        refused = self.train("--set", 'data.validation=["images.bin"]', "--set", "model.labels=2", status=2)
        self.assertIn("model.labels = 2, but", refused.stderr)

    def test_a_run_that_is_killed_sees_the_same_images(self):
        steps = ("--set", "run.steps=12")
        self.config(data='augment = "shift"')
        shifted = self.weights(*steps)
        self.config(data='augment = "crop"')
        begin = time.monotonic()
        undisturbed = self.weights(*steps)
        seconds = time.monotonic() - begin
        self.assertNotEqual(shifted, undisturbed)
        source = random.Random(1)
        arguments = [*steps, "--resume-if-any", "--set", 'checkpoint.directory="killed"', "--set", "checkpoint.every=1"]
        kills = 0
        for _ in range(KILLS):
            process = subprocess.Popen([TOOLS / "l2l-train", "run.toml", "--quiet", *arguments], cwd=self.path, stdout=subprocess.DEVNULL)
            try:
                process.wait(timeout=source.uniform(0.2, 0.8) * seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
            self.assertIn(process.wait(), (0, -signal.SIGKILL))
        self.assertGreater(kills, 0)
        print(f"{kills} kills", file=sys.stderr)
        self.assertEqual(self.weights(*arguments), undisturbed)

    def test_other_settings_are_refused_when_a_run_goes_on(self):
        self.config()
        directory = ("--set", 'checkpoint.directory="saved"')
        self.train("--quiet", *directory)
        more = ("--quiet", "--resume", "saved", *directory, "--set", "run.steps=4")
        self.assertIn("cannot go on with model.variant", self.train(*more, "--set", "model.variant=S1", status=2).stderr)
        self.assertIn("--allow-change data.augment", self.train(*more, "--set", "data.augment=crop", status=2).stderr)
        self.assertIn("--allow-change model.image_size", self.train(*more, "--set", "model.image_size=64", status=2).stderr)
        self.train(*more, "--set", "model.image_size=64", "--allow-change", "model.image_size")

    def test_what_is_refused(self):
        (self.path / "images/lies/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
        (self.path / "short.bin").write_bytes(bytes(3000))
        (self.path / "text.txt").write_text("no image")
        cases = {
            'train=["short.bin"]': "short.bin",
            'train=["text.txt"]': "text.txt",
            'train=["nowhere"]': "nowhere",
            'train=["pixels.npy"]': "pixels.npy",
            'format="jsonl"': "reads images",
            'train=["images.bin"]\nformat="cifar100"': "images.bin",
        }
        for lines, message in cases.items():
            with self.subTest(lines):
                data = lines.split("\n")
                train = data.pop(0).removeprefix("train=") if data[0].startswith("train") else '["images"]'
                self.config(train, data="\n".join(data))
                self.assertIn(message, self.train(status=2).stderr)
        self.config()
        self.assertIn("batch.micro_batch = 1", self.train("--set", "batch.micro_batch=1", status=2).stderr)
        self.config(size=40)
        self.assertIn("multiple of 32", self.train(status=2).stderr)
        for model, message in {"image_channels = 2": "image_channels", 'head = "language"': "model.head", "labels = 1": "model.labels"}.items():
            with self.subTest(model):
                self.config(model=model)
                self.assertIn(message, self.train(status=2).stderr)
        self.assertEqual([name for name in os.listdir(self.path) if name == "checkpoints"], [])
        self.config()
        self.assertIn("broken.png", self.tool("l2l-train", "run.toml", "--set", "run.steps=40", status=2).stderr)
        (self.path / "run.toml").write_text('[model]\nlayers = 1\n[data]\ntrain = ["text.txt"]\naugment = "crop"\n')
        self.assertIn("data.augment", self.train(status=2).stderr)


if __name__ == "__main__":
    TOOLS = pathlib.Path(sys.argv[1]).resolve()
    KILLS = int(os.environ.get("L2L_IMAGE_KILLS", "6"))
    unittest.main(argv=sys.argv[:1])
