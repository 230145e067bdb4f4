"""l2l-sample: prompts from standard input, prompts that are too long, and texts that are shown as they are made.

    sample_test.py FOLDER_OF_THE_TOOLS
"""
import codecs
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
CONFIG = """
[model]
layers = 1
hidden = 32
heads = 2
sequence = 16
dropout = 0
[data]
train = ["text"]
[precision]
compute = "fp32"
[batch]
micro_batch = 16
micro_batches = 2
[optimizer]
learning_rate = 1e-2
[device]
kind = "host"
[run]
steps = 60
"""
TEXT = "die Hände der Bären für schöne Öfen: 12 € und 𝄞. "
GREEDY = ["--temperature", "0"]


class SampleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "text").write_text(TEXT * 200)
        (cls.path / "run.toml").write_text(CONFIG)
        subprocess.run([TOOLS / "l2l-train", "run.toml", "--quiet"], cwd=cls.path, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def sample(self, *arguments, status=0, given=b""):
        done = subprocess.run([TOOLS / "l2l-sample", "checkpoints/run", *arguments], cwd=self.path, input=given, capture_output=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr.decode()

    def test_a_pipe_gets_whole_characters_as_they_are_made(self):
        whole, _ = self.sample("--prompt", "die ", "--tokens", "200", *GREEDY)
        self.assertGreater(len(whole) - len(whole.decode(errors="replace")), 5, "the model has learnt characters of several bytes")
        process = subprocess.Popen([TOOLS / "l2l-sample", "checkpoints/run", "--prompt", "die ", "--tokens", "200", *GREEDY], cwd=self.path,
                                   stdout=subprocess.PIPE)
        decoder, pieces = codecs.getincrementaldecoder("utf-8")(errors="replace"), []
        while piece := os.read(process.stdout.fileno(), 65536):
            decoder.decode(piece)
            self.assertEqual(decoder.getstate()[0], b"", f"half a character ends {piece}")
            pieces.append(piece)
        process.stdout.close()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(b"".join(pieces), whole)
        self.assertGreater(len(pieces), 10)

    def test_a_text_without_end_is_shown_at_once(self):
        process = subprocess.Popen([TOOLS / "l2l-sample", "checkpoints/run", "--prompt", "die ", "--tokens", "16000000", *GREEDY],
                                   cwd=self.path, stdout=subprocess.PIPE)
        shown = b""
        while len(shown) < 20:
            piece = os.read(process.stdout.fileno(), 1)
            self.assertTrue(piece)
            shown += piece
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        self.assertTrue(shown.startswith(b"die "), shown)

    def test_a_prompt_may_come_from_standard_input(self):
        expected, _ = self.sample("--prompt", "die H\nä", "--tokens", "5", *GREEDY)
        for given in ("die H\nä", "die H\nä\n"):
            out, _ = self.sample("--prompt", "-", "--tokens", "5", *GREEDY, given=given.encode())
            self.assertEqual(out, expected)
        out, err = self.sample("--prompt", "-", status=2)
        self.assertEqual(out, b"")
        self.assertIn("empty", err)
        _, err = self.sample(status=2, given=b"die H")
        self.assertIn("give --prompt TEXT (-: standard input), --prompts FILE or --ids", err)
        _, err = self.sample("--prompt", "x", "--chat", status=2)
        self.assertIn("bytes has no chat template; name the one to use (l2l-sample: by --template)", err)

    def test_of_damaged_checkpoints_all_are_tried(self):
        damaged = self.path / "damaged"
        for step in (1, 2, 3):
            shutil.copytree(self.path / "checkpoints/run/step-00000060", damaged / f"step-{step:08}")
            with open(damaged / f"step-{step:08}/model.safetensors", "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\x55")
        def refusal(*command):
            done = subprocess.run([TOOLS / command[0], *command[1:]], cwd=self.path, capture_output=True, text=True, timeout=100)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            return done.stderr
        commands = (("l2l-sample", "damaged", "--prompt", "x"), ("l2l-train", "run.toml", "--resume", "damaged", "--quiet"), ("l2l-export", "damaged", "out"))
        for command in commands:
            err = refusal(*command)
            self.assertEqual(err.count("trying an older checkpoint"), 2, err)
            self.assertIn(f"{command[0]}: damaged: none of its 3 checkpoints can be loaded, the last one for damaged/step-00000001/model.safetensors: ", err)
            self.assertIn("(checksum); restore one from a copy, or begin a new run\n", err)
        for folder in damaged.iterdir():
            os.truncate(folder / "model.safetensors", 100)
        for command in commands:
            self.assertRegex(refusal(*command), r"damaged: holds no complete checkpoint \(step-...\) among 3; damaged/step-00000003/model.safetensors: "
                                                r"has 100 bytes; .*; restore one from a copy, or begin a new run\n")
        shutil.rmtree(damaged)

    def test_a_folder_of_runs_names_those_that_have_checkpoints(self):
        done = subprocess.run([TOOLS / "l2l-sample", "checkpoints", "--prompt", "x"], cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("checkpoints: holds no complete checkpoint (step-...); there are some in checkpoints/run\n", done.stderr)

    def test_a_run_whose_layers_were_split_over_devices_is_sampled_on_one(self):
        settings = ["device.count=2", "device.tensor=2", 'checkpoint.directory="split"']
        subprocess.run([TOOLS / "l2l-train", "run.toml", "--quiet", *(a for s in settings for a in ("--set", s))], cwd=self.path, check=True,
                       capture_output=True)
        arguments = ["--prompt", "die ", "--tokens", "20", *GREEDY]
        done = subprocess.run([TOOLS / "l2l-sample", "split", *arguments], cwd=self.path, capture_output=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, self.sample(*arguments)[0]), done.stderr)

    def test_a_prompt_that_is_cut_says_so(self):
        (self.path / "prompts.txt").write_text("die\n" + "der " * 9 + "\n" + "für " * 9 + "\n")
        for arguments, message in ((["--prompt", "x" * 20], "the prompt has 20 tokens: the model reads the last 16\n"),
                                   (["--ids", ",".join(["65"] * 17)], "the prompt has 17 tokens: the model reads the last 16\n"),
                                   (["--prompts", "prompts.txt"], "2 prompts are longer than that: the model reads the last 16\n"),
                                   (["--prompt", "x" * 16], "")):
            with self.subTest(arguments=arguments):
                _, err = self.sample(*arguments, "--tokens", "2", *GREEDY)
                self.assertEqual(err, message)
        # What is not read changes nothing.
        ends = {self.sample("--prompt", start + "für schöne Öf", "--tokens", "1", "--no-cache", *GREEDY)[0][-2:]
                for start in ("ab", "xyz")}
        self.assertEqual(len(ends), 1)

    def test_numbers_that_are_none_are_refused(self):
        for option in ("--temperature", "--top-p"):
            for value in ("nan", "inf", "-inf", "-1"):
                with self.subTest(option=option, value=value):
                    out, err = self.sample("--prompt", "x", f"{option}={value}", status=2)
                    self.assertEqual(out, b"")
                    self.assertIn(option, err)


if __name__ == "__main__":
    unittest.main()
