"""Finds the expressions and statements of C++ source that a mutant may replace.

Not a parser: it knows tokens, brackets, and which braces hold statements. What it takes for an expression and is none
does not compile, and is then counted so (mutate.py).
"""
import re
from dataclasses import dataclass

_TOKEN = re.compile(r'''
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<raw>R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)")
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[\w.]|'(?=\w)|(?<=[eEpP])[+-])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark><<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
''', re.VERBOSE | re.DOTALL | re.MULTILINE)

OPEN, CLOSE = {'(': ')', '[': ']', '{': '}'}, {')', ']', '}'}
_TYPES = {'struct', 'class', 'union', 'enum', 'namespace', 'concept'}
_NOT_EXPRESSIONS = {'using', 'break', 'continue', 'goto', 'static_assert', 'typedef', 'template', 'friend', 'public',
                    'private', 'protected', 'constexpr', 'static', 'struct', 'class', 'enum', 'case', 'default',
                    'co_return', 'asm', 'extern'}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int  # offsets in the file
    end: int


@dataclass(frozen=True)
class Slot:
    """What a mutant may replace: the tokens [first, last), and of a statement its semicolon behind them."""
    kind: str  # condition, value (initial or returned), statement, lock
    first: int
    last: int


def tokens_of(text):
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != 'fence' else 'raw'
        if match.group('raw'):
            kind = 'raw'
        if kind in ('comment', 'directive') or match.group().isspace():
            continue
        tokens.append(Token(kind, match.group(), match.start(), match.end()))
    return tokens


class Source:
    """One file. slots: in the order of their first tokens; they may lie within each other (lambdas)."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.partner = self._partners()
        self.slots = []
        self._outside(0, len(self.tokens))
        self.slots.sort(key=lambda slot: slot.first)

    def line(self, token):
        return self.text.count('\n', 0, self.tokens[token].begin) + 1

    def _is(self, index, *texts):
        return 0 <= index < len(self.tokens) and self.tokens[index].text in texts

    def _partners(self):
        partner, stack = {}, []
        for index, token in enumerate(self.tokens):
            if token.kind != 'mark':
                continue
            if token.text in OPEN:
                stack.append(index)
            elif token.text in CLOSE and stack:
                opening = stack.pop()
                partner[opening], partner[index] = index, opening
        return partner

    def _head(self, brace):
        """The first token of the declaration or statement whose brace this is."""
        index = brace - 1
        while index >= 0 and not self._is(index, ';', '{', '}'):
            index = self.partner.get(index, index) - 1 if self._is(index, ')', ']') else index - 1
        return index + 1

    def holds_statements(self, brace):
        if brace not in self.partner:
            return False
        if self._is(brace - 1, 'else', 'do', 'try', 'mutable', 'override', 'noexcept', 'const', ']'):
            return True
        head = [self.tokens[i].text for i in range(self._head(brace), brace)]
        if _TYPES & set(head) and '(' not in head:
            return False
        return self._is(brace - 1, ')') or ('->' in head and ')' in head)

    def _outside(self, index, end):
        """Walks declarations; enters the bodies of functions, and of lambdas."""
        while index < end:
            if self._is(index, '{') and self.holds_statements(index):
                self._block(index)
                index = self.partner[index]
            index += 1

    def _block(self, brace):
        index, end = brace + 1, self.partner[brace]
        while index < end:
            index = self._statement(index, end)

    def _clause(self, opening):
        """A condition in parentheses."""
        first, last = opening + 1, self.partner[opening]
        semicolons = [i for i in self._top(first, last) if self._is(i, ';')]
        if semicolons:  # the statement before it is a declaration; of a loop, the condition is the second
            first, last = semicolons[0] + 1, semicolons[1] if len(semicolons) > 1 else last
        if not any(self._is(i, ':', '=') for i in self._top(first, last)) and first < last:
            self._add('condition', first, last)
        self._outside(opening + 1, self.partner[opening])

    def _top(self, first, last):
        """Indices of the tokens that stand in no bracket of their own."""
        index = first
        while index < last:
            yield index
            index = self.partner[index] if index in self.partner and self.tokens[index].text in OPEN else index
            index += 1

    def _statement(self, index, end):
        text = self.tokens[index].text
        if text == '{':
            self._block(index)
            return self.partner[index] + 1
        if text in ('else', 'do', 'try', ';'):
            return index + 1
        if text in ('if', 'while', 'for', 'switch', 'catch'):
            constant = text == 'if' and self._is(index + 1, 'constexpr')
            opening = index + 2 if constant else index + 1
            if text in ('if', 'while', 'for') and not constant:
                self._clause(opening)
            return self.partner[opening] + 1
        if text in ('case', 'default'):
            return next((i for i in self._top(index, end) if self._is(i, ':')), end) + 1
        last = next((i for i in self._top(index, end) if self._is(i, ';')), end)
        if last < end:
            self._simple(index, last)
        self._outside(index, last)
        return last + 1

    def _simple(self, first, last):
        text = self.tokens[first].text
        if text == 'return':
            if last > first + 1 and not self._is(first + 1, '{'):
                self._add('value', first + 1, last)
        elif text == 'throw':
            self._add('statement', first, last)
        elif text not in _NOT_EXPRESSIONS:
            self._declaration_or_expression(first, last)

    def _declaration_or_expression(self, first, last):
        declares = self._declares(first, last)
        if not declares:
            self._add('statement', first, last)
            return
        names = [self.tokens[i].text for i in range(first, last)]
        if 'lock_guard' in names:
            self._add('lock', first, last)
            return
        equals = next((i for i in self._top(first, last) if self._is(i, '=')), None)
        several = any(self._is(i, ',') for i in self._top(first, last))
        if equals is not None and not several and not self._is(equals + 1, '{') and 'constexpr' not in names:
            self._add('value', equals + 1, last)

    def _declares(self, first, last):
        """Whether the statement begins with a type and a name, as an expression cannot."""
        previous, depth = None, 0
        for i in range(first, last):
            token = self.tokens[i]
            if token.text == '<' and previous is not None and previous.end == token.begin:
                depth += 1
            elif token.text in ('>', '>>') and depth > 0:
                depth -= len(token.text)
            elif depth == 0:
                if token.text in ('(', '[', '=', '+=', '-=', '*=', '/=', '.', '->', '++', '--', '<<'):
                    return token.text == '[' and self._is(i - 1, 'auto', '&') and self._is(first, 'auto', 'const')
                follows = previous is not None and (previous.kind == 'name' or previous.text in ('&', '*', '>', '&&'))
                if token.kind == 'name' and follows and not self._is(i - 1, 'return', 'delete', 'throw', 'new'):
                    return not self._is(first, 'delete')
            previous = token
        return False

    def _add(self, kind, first, last):
        if first < last:
            self.slots.append(Slot(kind, first, last))

    def own_tokens(self, slot):
        """Indices of the slot's tokens that lie in no lambda's body."""
        index = slot.first
        while index < slot.last:
            if self._is(index, '{') and self.holds_statements(index):
                index = self.partner[index]
            else:
                yield index
            index += 1

    def flat(self, first, last, replaced=()):
        """The tokens [first, last) in one line, those in `replaced` (a map from index to text) replaced."""
        replaced = dict(replaced)
        parts, previous = [], None
        for i in range(first, last):
            token = self.tokens[i]
            if previous is not None and previous.end != token.begin:
                parts.append(' ')
            parts.append(replaced.get(i, token.text).replace('\n', '\\n'))
            previous = token
        return ''.join(parts)
