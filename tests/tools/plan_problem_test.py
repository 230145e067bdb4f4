"""l2l-plan --problem on what a file can hold: refused with exit status 2, file and line, or solved within bounds.

    plan_problem_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

SANITIZED = os.environ.get("L2L_SANITIZED") == "1"
TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
HEADER = "id,lower,upper,size\n"


class PlanProblem(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "p.csv"

    def tearDown(self):
        self.folder.cleanup()

    def run_on(self, text, *options):
        if text is not None:
            self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        process = subprocess.run([TOOLS / "l2l-plan", "--problem", self.file, *options], capture_output=True, timeout=240)
        return process.returncode, process.stdout.decode(), process.stderr.decode(errors="replace")

    def refused(self, text, *names):
        status, out, err = self.run_on(text)
        self.assertEqual((status, out), (2, ""), err)
        for name in names:
            self.assertIn(name, err)
        self.assertEqual(len(err.strip().splitlines()), 1, err)

    def solved(self, text, *options):
        """The JSON; and the offsets are those of a right plan, looked at pair by pair when there are few."""
        written = self.file.with_name("o.csv")
        status, out, err = self.run_on(text, "--output", written, *options)
        self.assertEqual(status, 0, err)
        plan = json.loads(out)
        if plan["buffers"] <= 1000:
            self.check(written.read_text("latin-1"), plan["footprint"])
        return plan

    def check(self, text, footprint):
        lines = [line.split(",") for line in text.splitlines()]
        columns = {name: place for place, name in enumerate(lines[0])}
        rows = []
        for line in lines[1:]:
            clocks = [[int(entry) for entry in line[columns[name]].split(":")] for name in ("lower", "upper")]
            rows.append((*clocks, int(line[columns["size"]]), int(line[columns["offset"]])))
        self.assertEqual(max((size + offset for _, _, size, offset in rows), default=0), footprint)
        before = lambda p, q: all(end <= begin for end, begin in zip(p[1], q[0]))
        lives = lambda p: p[0] != p[1] and p[2] > 0
        for i, p in enumerate(rows):
            for q in rows[:i]:
                if lives(p) and lives(q) and not before(p, q) and not before(q, p):
                    self.assertTrue(p[3] + p[2] <= q[3] or q[3] + q[2] <= p[3], (p, q))

    def test_sizes_that_are_negative_or_wrap(self):
        self.refused(HEADER + "a,0,1,5\nb,0,1,-5\n", "p.csv:3: size: '-5'")
        self.refused(HEADER + f"a,0,1,{2**64 + 1}\n", "p.csv:2: size:")
        self.refused(HEADER + f"a,0,1,{2**63}\n", "p.csv:2: size:")
        self.refused(HEADER + f"a,0,1,{2**61}\nb,0,1,{2**61}\n", "p.csv:3: ", "2^62")
        self.refused(HEADER + "".join(f"t{i},{i},{i + 1},{2**61 - 1}\n" for i in range(9)), "p.csv:4: ", "2^62")
        self.refused("id,lower,upper,size,offset\n" + f"a,0,1,9,{2**62 - 1}\n", "p.csv:2: ")
        self.assertEqual(self.solved(HEADER + f"a,0,1,{2**61}\nb,0,1,0\n")["footprint"], 2**61)

    def test_lifetimes_that_are_inverted_or_do_not_fit(self):
        self.refused(HEADER + "a,0,1,5\nb,3,1,5\n", "p.csv:3: upper: 1 comes before lower, 3")
        self.refused(HEADER + "a,0:5,9:4,5\n", "p.csv:2: upper: 4 comes before lower, 5")
        self.refused(HEADER + f"a,0,{2**63},5\n", "p.csv:2: upper:")
        self.refused(HEADER + f"a,-{2**63},0,5\n", "p.csv:2: lower:")
        self.assertEqual(self.solved(HEADER + f"a,-{2**62},{2**62},5\nb,0,1,7\nc,3,3,9\n")["bound"], 12)

    def test_ids_that_are_there_twice(self):
        self.refused(HEADER + "a,0,1,5\nb,0,1,5\na,2,3,5\n", "p.csv:4: id 'a' was there before, in line 2")
        self.refused(HEADER + "a,0,1,5\n,0,1,5\n", "p.csv:3: id: is empty")

    def test_clocks_of_different_length(self):
        self.refused(HEADER + "a,0:0,1:1,5\nb,0:0:0,1:1:1,5\n", "p.csv:3: lower: has 3 entries, those before 2")
        self.refused(HEADER + "a,0:0,1,5\n", "p.csv:2: upper: has 1 entries, those before 2")
        self.refused(HEADER + "a,0:,1:1,5\n", "p.csv:2: lower: ''")
        self.refused(HEADER + f"a,{':'.join('0' * 65)},{':'.join('1' * 65)},5\n", "p.csv:2: ", "64")
        self.assertEqual(self.solved(HEADER + "a,0:0,1:0,5\nb,0:0,0:1,6\nc,1:1,2:2,9\n")["footprint"], 11)

    def test_groups_and_offsets_that_contradict(self):
        columns = "id,lower,upper,size,group,offset\n"
        self.refused(columns + "a,0,9,5,g,0\nb,0,9,5,g,7\n", "p.csv:3: ", "not where its group puts it")
        self.refused(columns + "a,0,9,5,g,\nb,0,9,5,g,2\n", "p.csv:3: ", "not where its group puts it")
        self.refused(columns + "a,0,9,5,,0\nb,0,9,5,,4\n", "p.csv:3: ", "'a'", "'b'")
        self.refused(columns + "a,0,9,5,g,\nb,0,9,5,g,5\nc,0,9,5,,3\n", "p.csv:", "clash")
        plan = self.solved(columns + "a,0,9,5,g,\nb,0,2,5,g,\nc,3,9,5,,\nd,3,9,5,,10\n")
        self.assertEqual(plan["footprint"], 15)

    def test_files_that_are_none(self):
        self.refused(None, "p.csv: cannot be read")
        self.refused("", "p.csv:1: is empty")
        self.assertEqual(self.solved(HEADER)["footprint"], 0)
        self.file = pathlib.Path(self.folder.name)
        self.refused(None, str(self.file))

    def test_headers(self):
        self.refused("a,0,1,5\n", "p.csv:1: column 'a' is unknown")
        self.refused("id,lower,upper\n", "p.csv:1: column 'size' is missing")
        self.refused("id,lower,upper,size,size\n", "p.csv:1: column 'size' is there twice")
        self.assertEqual(self.solved("\ufeff" + HEADER + "a,0,1,5\n")["footprint"], 5)

    def test_lines_and_numbers(self):
        for number in ("", " 5", "5 ", "+5", "5.0", "1e3", "0x10", "five", "nan", "5;", "--5"):
            self.refused(HEADER + f"a,0,1,5\nb,0,1,{number}\n", f"p.csv:3: size: '{number}'")
            self.refused(HEADER + f"a,{number},1,5\n", f"p.csv:2: lower: '{number}'")
        self.refused(HEADER + "a,0,1\n", "p.csv:2: has 3 fields, the header 4")
        self.refused(HEADER + "a,0,1,5,6\n", "p.csv:2: has 5 fields, the header 4")
        self.refused(HEADER + "a" * 5000 + ",0,1,5\n", "p.csv:2: is longer than 4096 bytes")
        self.assertEqual(self.solved(b"id,lower,upper,size\r\na,0,1,5\r\n\r\nb,0,1,6")["footprint"], 11)

    def test_bytes_that_are_no_text(self):
        self.refused(HEADER.encode() + b"a,0,1,5\nb,0,1,5\0\n", "p.csv:3: size:")
        self.refused(HEADER.encode() + b"\0\0\0\0", "p.csv:2: ")
        self.refused(b"\xff\xfe" + HEADER.encode("utf-16-le"), "p.csv:1: has bytes of value 0")
        self.solved(HEADER.encode() + b"a\0b,0,1,5\n\xff\xfe,0,1,5\n")
        chance = random.Random(1)
        for _ in range(20):
            status, _, err = self.run_on(chance.randbytes(3000))
            self.assertEqual(status, 2, err)
            self.assertIn("p.csv:1: ", err)

    def many(self, lines, *options):
        """Time and memory are bounded, whatever the shape."""
        start = time.monotonic()
        plan = self.solved(HEADER + "".join(lines), "--seconds", "1", *options)
        self.assertLess(time.monotonic() - start, 200 if SANITIZED else 60)
        self.assertLess(plan["ratio"], 2)
        return plan

    def test_a_million_buffers(self):
        chance = random.Random(2)
        count = 100_000 if SANITIZED else 1_000_000
        short = (chance.randrange(count) for _ in range(count))
        self.many(f"t{i},{begin},{begin + chance.randrange(1, 9)},{chance.randrange(1, 1 << 20)}\n"
                  for i, begin in enumerate(short))

    def test_a_million_buffers_that_all_meet(self):
        count = 100_000 if SANITIZED else 1_000_000
        plan = self.many(f"t{i},{i},{2 * count - i},{i}\n" for i in range(count))
        self.assertEqual(plan["ratio"], 1)

    def test_a_million_buffers_on_streams(self):
        chance = random.Random(3)
        count = 100_000 if SANITIZED else 1_000_000
        times = ([chance.randrange(1000) for _ in range(3)] for _ in range(count))
        start = time.monotonic()
        plan = self.solved(HEADER + "".join(
            f"t{i},{a}:{b}:{c},{a + 3}:{b + 1}:{c},5\n" for i, (a, b, c) in enumerate(times)), "--seconds", "1")
        self.assertLess(time.monotonic() - start, 200 if SANITIZED else 60)
        self.assertEqual(plan["buffers"], count)

    def test_groups_of_many(self):
        chance = random.Random(4)
        lines = []
        for i in range(20_000):
            begin = chance.randrange(1000)
            lines.append(f"t{i},{begin},{begin + chance.randrange(1, 999)},{chance.randrange(1, 999)},g{i % 3}\n")
        start = time.monotonic()
        plan = self.solved("id,lower,upper,size,group\n" + "".join(lines), "--seconds", "1")
        self.assertLess(time.monotonic() - start, 200 if SANITIZED else 60)
        self.assertEqual(plan["buffers"], 20_000)


if __name__ == "__main__":
    unittest.main()
