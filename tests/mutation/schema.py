"""Mutants of many files in one build: each is compiled in beside the code that it replaces, and chosen at run time.

R. H. Untch, A. J. Offutt, M. J. Harrold: Mutation analysis using mutant schemata (1993).
"""
import random
from dataclasses import asdict, dataclass

from cpp_source import Source
from operators import mutations

HEADER = 'core/mutation.h'
HEADER_TEXT = r'''// Which mutant runs: L2L_MUTANT has its number. L2L_MUTANTS_REACHED names a file that gets the number of each mutant
// whose place is reached, once for each process.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace l2l_mutation {
inline int number_in(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}
inline int open_reached() {
  const char* const name = std::getenv("L2L_MUTANTS_REACHED");
  return name == nullptr ? -1 : ::open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}
inline const int chosen = number_in("L2L_MUTANT");
inline const int reached = open_reached();
inline bool seen[@COUNT@];
inline void note(int number) {
  if (seen[number]) return;
  seen[number] = true;
  char line[16];
  const int bytes = std::snprintf(line, sizeof(line), "%d\n", number);
  if (::write(reached, line, static_cast<std::size_t>(bytes)) < 0) std::abort();
}
inline bool is(int number) {
  if (reached > 0) note(number);
  return chosen == number;
}
}  // namespace l2l_mutation
'''


@dataclass
class Mutant:
    number: int
    file: str
    line: int
    operator: str
    before: str
    after: str
    kind: str
    begin: int  # offsets in the file of what is replaced
    end: int

    def as_json(self):
        return asdict(self)


def candidates(path, text):
    """All mutants of a file, unnumbered."""
    source = Source(text)
    found = []
    for slot in source.slots:
        before = source.flat(slot.first, slot.last)
        begin = source.tokens[slot.first].begin
        end = source.tokens[slot.last - 1].end
        if slot.kind in ('statement', 'lock'):
            end = source.tokens[slot.last].end  # the semicolon
        for operator, after in mutations(source, slot):
            found.append(Mutant(0, path, source.line(slot.first), operator, before, after or '', slot.kind, begin, end))
    return found


def sample(files, count, seed):
    """Draws `count` mutants. Folders and operators weigh as the square roots of their numbers; no mutant lies within
    another. files: path to text."""
    generator = random.Random(seed)
    folders = {}
    for path in sorted(files):
        for mutant in candidates(path, files[path]):
            folders.setdefault(path.split('/')[0], {}).setdefault(mutant.operator, []).append(mutant)
    for operators in folders.values():
        for mutants in operators.values():
            generator.shuffle(mutants)
    weights = {folder: sum(map(len, operators.values())) ** 0.5 for folder, operators in sorted(folders.items())}
    drawn = []
    while len(drawn) < count and any(weights.values()):
        folder = generator.choices(list(weights), list(weights.values()))[0]
        operators = {name: mutants for name, mutants in folders[folder].items() if mutants}
        if not operators:
            weights[folder] = 0
            continue
        names = sorted(operators)
        name = generator.choices(names, [len(operators[name]) ** 0.5 for name in names])[0]
        mutant = operators[name].pop()
        if any(other.file == mutant.file and other.begin < mutant.end and mutant.begin < other.end for other in drawn):
            continue
        drawn.append(mutant)
        mutant.number = len(drawn)
    return drawn


def rendered(mutant):
    """The text that chooses between the mutant and what it replaces, in one line."""
    chosen = f'::l2l_mutation::is({mutant.number})'
    before, after = mutant.before, mutant.after
    if mutant.kind == 'condition':
        return f'({chosen} ? bool({after}) : bool({before}))'
    if mutant.kind == 'value':
        return f'{chosen} ? ({after}) : ({before})'
    if mutant.kind == 'lock':
        name, _, argument = before[:-1].split()[-1].partition('(')
        guard = f'std::unique_lock({argument}'
        return f'const std::unique_lock {name} = {chosen} ? {guard}, std::defer_lock) : {guard});'
    if not after:
        return f'{{ if (!{chosen}) {{ {before}; }} }}'
    return f'{{ if ({chosen}) {{ {after}; }} else {{ {before}; }} }}'


def render(text, mutants):
    """The file with these mutants in it; lines keep their numbers."""
    for mutant in sorted(mutants, key=lambda mutant: -mutant.begin):
        lost = text.count('\n', mutant.begin, mutant.end)
        text = text[:mutant.begin] + rendered(mutant) + '\n' * lost + text[mutant.end:]
    return f'#include "{HEADER}"\n#line 1\n' + text if mutants else text


def header(mutants):
    return HEADER_TEXT.replace('@COUNT@', str(max(mutant.number for mutant in mutants) + 1))
