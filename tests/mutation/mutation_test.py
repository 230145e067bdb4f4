"""Tests of the mutation tool: what it finds in source, and that each of its mutants runs when it is chosen."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cpp_source import Source  # noqa: E402
from schema import HEADER, candidates, header, render, sample  # noqa: E402

TEXT = '''#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

struct Sum {
  int add(const std::vector<int>& values, int least) {
    const std::lock_guard lock(mutex_);
    int result = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Not the text of a comment: i < 3;
      if (values[i] >= least && values[i] != 7)
        result += values[i];
    }
    std::for_each(values.begin(), values.end(), [&](int value) { count_ = count_ + std::min(value, 1); });
    note("a < b; c");
    return result * 2 + minus(count_, 1);
  }
  void note(const char*) {}
  static int minus(int a, int b) { return a - b; }

 private:
  std::mutex mutex_;
  int count_ = 0;
};

int main() {
  Sum sum;
  std::printf("%d\\n", sum.add({5, 7, 1, 9}, 2));
}
'''


def found():
    return candidates('runtime/sum.cpp', TEXT)


class Slots(unittest.TestCase):
    def test_statements_values_conditions_and_locks(self):
        source = Source(TEXT)
        slots = {(slot.kind, source.flat(slot.first, slot.last)) for slot in source.slots}
        for slot in [('lock', 'const std::lock_guard lock(mutex_)'), ('value', '0'),
                     ('condition', 'i < values.size()'), ('condition', 'values[i] >= least && values[i] != 7'),
                     ('statement', 'result += values[i]'), ('statement', 'count_ = count_ + std::min(value, 1)'),
                     ('value', 'result * 2 + minus(count_, 1)'), ('value', 'a - b')]:
            self.assertIn(slot, slots)
        self.assertFalse([text for _, text in slots if '< 3' in text or 'std::mutex mutex_' in text])

    def test_lines(self):
        self.assertEqual({mutant.line for mutant in found() if mutant.before == 'a - b'}, {20})


class Operators(unittest.TestCase):
    def assert_mutant(self, operator, after):
        self.assertIn((operator, after), {(mutant.operator, mutant.after) for mutant in found()})

    def test_each(self):
        self.assert_mutant('comparison', 'i <= values.size()')
        self.assert_mutant('logic', 'values[i] >= least || values[i] != 7')
        self.assert_mutant('condition negated', '!(i < values.size())')
        self.assert_mutant('constant', 'result * 3 + minus(count_, 1)')
        self.assert_mutant('arithmetic', 'a + b')
        self.assert_mutant('assignment', 'result -= values[i]')
        self.assert_mutant('off by one', 'result += values[i] - 1')
        self.assert_mutant('other name', 'count_ = count_ + std::max(value, 1)')
        self.assert_mutant('arguments swapped', 'result * 2 + minus(1, count_)')
        self.assert_mutant('statement dropped', '')
        self.assert_mutant('lock removed', '')

    def test_words_of_messages_stay(self):
        self.assertFalse([mutant for mutant in found() if 'a <= b' in mutant.after])


class Samples(unittest.TestCase):
    def test_follow_the_seed_and_do_not_overlap(self):
        files = {'runtime/sum.cpp': TEXT}
        drawn = sample(files, 8, 5)
        self.assertEqual([mutant.as_json() for mutant in drawn], [m.as_json() for m in sample(files, 8, 5)])
        self.assertNotEqual([mutant.as_json() for mutant in drawn], [m.as_json() for m in sample(files, 8, 6)])
        places = sorted((mutant.begin, mutant.end) for mutant in drawn)
        self.assertTrue(all(a[1] <= b[0] for a, b in zip(places, places[1:])), places)


@unittest.skipUnless(shutil.which('c++'), 'no compiler')
class Running(unittest.TestCase):
    def test_each_mutant_runs_when_it_is_chosen(self):
        drawn = sample({'runtime/sum.cpp': TEXT}, 6, 1)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / HEADER).parent.mkdir()
            (folder / HEADER).write_text(header(drawn))
            text = render(TEXT, drawn)
            self.assertEqual(text.count('\n'), TEXT.count('\n') + 2, 'lines keep their numbers behind #line')
            (folder / 'sum.cpp').write_text(text)
            command = ['c++', '-std=c++20', '-I', folder, folder / 'sum.cpp', '-o', folder / 'sum']
            subprocess.run(command, check=True)

            def said(number):
                reached = folder / f'reached-{number}'
                done = subprocess.run([folder / 'sum'], timeout=20, text=True, stdout=subprocess.PIPE,
                                      env={**os.environ, 'L2L_MUTANT': str(number),
                                           'L2L_MUTANTS_REACHED': str(reached)})
                if number == 0:
                    self.assertEqual({int(line) for line in reached.read_text().split()},
                                     {mutant.number for mutant in drawn})
                return done.stdout

            # What it does unharmed: 2 * (5 + 9) + 4 - 1.
            self.assertEqual(said(0), '31\n')
            # All but those without effect here: the lock, the note, a bound that no value meets.
            changed = [mutant.operator for mutant in drawn if said(mutant.number) != '31\n']
            self.assertGreaterEqual(len(changed), 3, [mutant.as_json() for mutant in drawn])


if __name__ == '__main__':
    unittest.main()
