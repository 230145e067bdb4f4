"""Every tool's command line: help, version, what mistakes are answered with, manual pages and completions.

    command_line_test.py FOLDER_OF_THE_TOOLS
"""
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
NAMES = [f"l2l-{name}" for name in "train plan eval export report sample tokenize bench".split()]


def run(tool, *arguments, **variables):
    return subprocess.run([TOOLS / tool, *arguments], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=60)


class Mistakes(unittest.TestCase):
    def refused(self, tool, *arguments, saying):
        result = run(tool, *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr, f"{tool}: {saying}\n")

    def test_the_nearest_option_is_suggested(self):
        self.refused("l2l-train", "run.toml", "--stpes", "5", saying="--stpes: unknown option; did you mean --steps?")
        self.refused("l2l-train", "run.toml", "--stpes=5", saying="--stpes: unknown option; did you mean --steps?")
        self.refused("l2l-eval", "--hiden", "h.npy", saying="--hiden: unknown option; did you mean --hidden?")
        self.refused("l2l-bench", "step", "--jsn", saying="--jsn: unknown option; did you mean --json?")
        self.refused("l2l-plan", "--unheard-of", saying="--unheard-of: unknown option; see l2l-plan --help")

    def test_the_nearest_subcommand_is_suggested(self):
        self.refused("l2l-bench", "rely", saying="rely: unknown subcommand; did you mean relay?")
        self.refused("l2l-bench", "--json", "rely", saying="rely: unknown subcommand; did you mean relay?")
        self.refused("l2l-bench", "unheard-of", saying="unheard-of: unknown subcommand; see l2l-bench --help")

    def test_what_is_missing_or_too_much_is_named(self):
        self.refused("l2l-eval", saying="MODEL is required; see l2l-eval --help")
        self.refused("l2l-bench", saying="A subcommand is required; see l2l-bench --help")
        self.refused("l2l-bench", "step", saying="CONFIG is required; see l2l-bench step --help")
        self.refused("l2l-train", "one", "two", saying="two: one argument too many; see l2l-train --help")
        self.refused("l2l-train", "--", "-one.toml", "--steps", "2",
                     saying="--steps: one argument too many: behind -- nothing is an option; see l2l-train --help")
        self.refused("l2l-train", "--stpes", "2", "--", "one", "two", saying="--stpes: unknown option; did you mean --steps?")
        self.refused("l2l-train", "one.toml", "--", "two", saying="two: one argument too many; see l2l-train --help")

    def test_empty_values_are_refused(self):
        for name, *arguments in (("--resume", "run.toml", "--resume", ""), ("--metrics", "run.toml", "--metrics", ""),
                                 ("--set", "run.toml", "--set", ""), ("CONFIG", "")):
            self.refused("l2l-train", *arguments, saying=f"{name}: must not be empty; see l2l-train --help")

    def test_bounds_are_named_shortly(self):
        bounds = [("l2l-sample", "--top-p", "1.5", "must be in [0, 1]"), ("l2l-sample", "--top-k", "-1", "must not be negative"),
                  ("l2l-sample", "--temperature", "nan", "is no finite number"), ("l2l-eval", "--sequence", "0", "must be at least 1"),
                  ("l2l-sample", "--tokens", "few", "is no whole number"), ("l2l-sample", "--temperature", "hot", "is no number"),
                  ("l2l-sample", "--ids", "1,,2", "has an empty place"), ("l2l-sample", "--ids", "1,", "has an empty place"),
                  ("l2l-export", "--format", "onnx", "is none of hf, gguf"),
                  ("l2l-tokenize", "--threads", "99999999999999999999", "is out of range"),
                  ("l2l-train", "--steps", "99999999999999999999", "is out of range"),
                  ("l2l-train", "--steps", "1000000000001", "must be in [0, 1000000000000]"),
                  ("l2l-train", "--steps", "010", "begins with a zero"),
                  ("l2l-sample", "--seed", "-1", "must not be negative")]
        for tool, option, value, what in bounds:
            with self.subTest(option=option, value=value):
                self.refused(tool, option, value, saying=f"{option}: {value} {what}; see {tool} --help")
        self.refused("l2l-bench", "eps", "--threads", "1,2000",
                     saying="--threads: 2000 must be in [1, 1024]; see l2l-bench eps --help")


class Help(unittest.TestCase):
    def help(self, *command):
        result = run(*command, "--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)
        return result.stdout

    def explanation(self, text, option):
        """What `text` says of an option, in one line."""
        found = re.search(rf"^  {option}\b.*?(?=^  \S|^$)", text, re.MULTILINE | re.DOTALL)
        self.assertIsNotNone(found, text)
        return " ".join(found[0].split())

    def test_defaults_and_bounds(self):
        text = self.help("l2l-sample")
        self.assertTrue(self.explanation(text, "--tokens N").endswith("(default: 200)"))
        self.assertTrue(self.explanation(text, "--top-p X").endswith("(in [0, 1]; default: 1)"))
        text = self.help("l2l-export")
        self.assertTrue(self.explanation(text, r"--format hf\|gguf").endswith("(default: hf)"))
        self.assertIn("(default: fp32)", self.explanation(text, "--dtype"))
        # stands for the model's own
        self.assertTrue(self.explanation(self.help("l2l-eval"), "--sequence N").endswith("(at least 1)"))
        self.assertIn("with --problem", self.explanation(self.help("l2l-plan"), "--seconds X"))
        self.assertIn('"failed" in the JSON', self.explanation(self.help("l2l-plan"), "--budget TEXT"))

    def test_it_fits_the_terminal(self):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 70, 0, 0))
        process = subprocess.Popen([TOOLS / "l2l-train", "--help"], stdout=theirs)
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # when the process has ended
            while piece := terminal.read(4096):
                shown += piece
        self.assertEqual(process.wait(), 0)
        lines = shown.decode().splitlines()
        self.assertGreater(len(lines), 20)
        options = lines[:lines.index("Examples:")]  # what may be typed is not broken
        self.assertLessEqual(max(map(len, options)), 70)

    def test_two_examples_whose_options_exist(self):
        for tool in NAMES:
            with self.subTest(tool=tool):
                text = self.help(tool)
                examples = re.findall(rf"^  ({tool} .*)$", text.split("\nExamples:\n")[1], re.MULTILINE)
                self.assertEqual(len(examples), 2)
                for example in examples:
                    words = example.split()
                    known = self.help(tool, words[1]) if tool == "l2l-bench" else text
                    for option in filter(lambda word: word.startswith("--"), words):
                        self.assertRegex(known, rf"(?m)^  {option}\b")

    def test_of_a_subcommand(self):
        text = self.help("l2l-bench", "step")
        self.assertTrue(text.startswith("Usage: l2l-bench step [OPTIONS] CONFIG\n"))
        self.assertIn("(in [1, 1000]", self.explanation(text, "--steps N"))
        self.explanation(text, "--json")


class Version(unittest.TestCase):
    def lines(self, tool, **variables):
        result = run(tool, "--version", **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        first, *others = result.stdout.splitlines()
        self.assertRegex(first, rf"^{tool} \d+\.\d+\.\d+( \([0-9a-f]+(-dirty)?\))?$")
        return {line[:18].strip(): line[18:] for line in others}

    def test_of_every_tool(self):
        lines = [self.lines(tool) for tool in NAMES]
        self.assertTrue(all(each == lines[0] for each in lines))

    def test_the_instruction_set_in_use(self):
        best = self.lines("l2l-train")["instruction set"]
        compiled = re.fullmatch(r"(\w+) \(compiled in: (.*)\)", best)
        self.assertIn(compiled[1], compiled[2].split(", "))
        self.assertTrue(self.lines("l2l-train", L2L_INSTRUCTION_SET="portable")["instruction set"].startswith("portable ("))
        result = run("l2l-train", "--version", L2L_INSTRUCTION_SET="mmx")
        self.assertEqual(result.returncode, 2)
        self.assertIn("L2L_INSTRUCTION_SET = mmx", result.stderr)

    @unittest.skipUnless(shutil.which("readelf"), "no readelf")
    def test_libraries_are_those_that_are_linked(self):
        linked = subprocess.run(["readelf", "--dynamic", TOOLS / "l2l-plan"], capture_output=True, text=True, check=True).stdout
        lines = self.lines("l2l-plan")
        for name, file in {"oneTBB": "libtbb", "hwloc": "libhwloc", "oneDNN": "libdnnl", "jemalloc": "libjemalloc", "tokenizers": "libpcre2-8",
                           "zlib": "libz", "zstd": "libzstd"}.items():
            self.assertEqual(lines[name] != "no", f"[{file}.so" in linked, name)

    def test_cuda_is_the_module_beside_it(self):
        module = TOOLS.parent / "device/cuda/module/libl2l_cuda.so"
        if module.parent.exists():
            self.assertEqual(self.lines("l2l-train")["CUDA"], "yes" if module.exists() else "no")


class Described(unittest.TestCase):
    """What the build installs beside the tools."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        for tool in NAMES:
            subprocess.run([TOOLS / tool, "--describe", cls.path], check=True)
        (cls.path / "work").mkdir()
        for name in ("run.toml", "two words.toml"):
            (cls.path / "work" / name).touch()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def completed(self, *words):
        """What bash offers for the last of the words."""
        script = f'source {self.path / words[0]}.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ' \
                 f'_{words[0].replace("-", "_")}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        result = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.path / "work", capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.splitlines() if result.stdout != "\n" else []

    def test_bash_completes(self):
        cases = [(["l2l-train", "--st"], ["--steps"]), (["l2l-train", "run.toml", "--res"], ["--resume", "--resume-if-any"]),
                 (["l2l-export", "--format", ""], ["hf", "gguf"]), (["l2l-export", "--format", "=", "g"], ["gguf"]),
                 (["l2l-export", "--format", "="], ["hf", "gguf"]), (["l2l-train", "--steps", ""], []),
                 (["l2l-train", "--set", "optimizer.learn"], ["optimizer.learning_rate="]),
                 (["l2l-eval", "model", "--set", "data.tokenizer"], ["data.tokenizer="]),
                 (["l2l-bench", "re"], ["relay"]), (["l2l-bench", "--json", "sa"], ["save"]), (["l2l-bench", "--"], ["--help", "--version", "--json"]),
                 (["l2l-bench", "step", "--st"], ["--steps"]), (["l2l-bench", "step", "--j"], ["--json"]),
                 (["l2l-bench", "step", "--set", "run.seco"], ["run.seconds="]), (["l2l-bench", "relay", "--se"], []),
                 (["l2l-train", "r"], ["run.toml"]), (["l2l-train", "--data", "two"], ["two words.toml"])]
        for words, expected in cases:
            with self.subTest(words=words):
                self.assertEqual(self.completed(*words), expected)

    def typed(self, shell, *lines, expecting):
        """Types the lines into an interactive shell until it prints what is expected."""
        master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null", "HISTFILE": ""}
        process = subprocess.Popen(shell, stdin=slave, stdout=slave, stderr=slave, cwd=self.path / "work", env=environment,
                                   start_new_session=True)
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in lines:
            os.write(master, line.encode() + b"\n")
        output, deadline = "", time.monotonic() + 30
        while expecting not in output and time.monotonic() < deadline:
            if select.select([master], [], [], 1)[0]:
                output += os.read(master, 4096).decode(errors="replace")
        self.assertIn(expecting, output)

    def test_in_an_interactive_bash(self):
        """What only the shell itself shows: a space behind what is complete, none behind a key, names quoted."""
        self.typed(["bash", "--norc", "--noprofile", "-i"],
                   f"l2l-train() {{ printf '<%s>' \"$@\"; }}; source {self.path}/l2l-train.bash",
                   "l2l-train --ste\t5 --set optimizer.learn\t1 tw\t",
                   expecting="<--steps><5><--set><optimizer.learning_rate=1><two words.toml>")

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_in_an_interactive_zsh(self):
        for line, expecting in [
            ("l2l-train --ste\t5 --set optimizer.learn\t1 tw\t", "<--steps><5><--set><optimizer.learning_rate=1><two words.toml>"),
            ("l2l-export --format g\t", "<--format><gguf>"),
            ("l2l-bench rel\t", "<relay>"),
            ("l2l-bench step --ste\t5 --js\t", "<step><--steps><5><--json>"),
        ]:
            with self.subTest(line=line):
                tool = line.split()[0]
                self.typed(["zsh", "-f", "-i"], f"{tool}() {{ print -rn -- \"<${{(j:><:)@}}>\" }}",
                           f"fpath=({self.path} $fpath); autoload -Uz compinit; compinit -u -D", line, expecting=expecting)

    def test_manual_pages_say_what_help_says(self):
        for tool in NAMES:
            with self.subTest(tool=tool):
                page = (self.path / f"{tool}.1").read_text()
                for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS"):
                    self.assertIn(f"\n.SH {section}\n", page)
                plain = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-")
                for option in re.findall(r"(?m)^  (--[\w-]+)", run(tool, "--help").stdout):
                    self.assertRegex(plain, rf"(?m)^{option}\b")

    @unittest.skipUnless(shutil.which("man") or shutil.which("mandoc"), "neither man nor mandoc")
    def test_manual_pages_are_sound(self):
        for tool in NAMES:
            page = self.path / f"{tool}.1"
            if shutil.which("man"):
                result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
            if shutil.which("mandoc"):
                result = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True)
                # without a date: the same tree gives the same page
                self.assertEqual([line for line in result.stdout.splitlines() if "missing date" not in line], [])

    def test_a_folder_that_is_not_there_is_refused(self):
        result = run("l2l-train", "--describe", str(self.path / "missing"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("missing/l2l-train.1", result.stderr)


if __name__ == "__main__":
    unittest.main()
