"""The changes that mutants make to an expression or statement, each one that a tired programmer could have made."""

_OPPOSITES = {'<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<'], '==': ['!='], '!=': ['=='],
              '+': ['-'], '-': ['+'], '*': ['+'], '/': ['*'], '%': ['/'], '&&': ['||'], '||': ['&&'],
              '+=': ['-=', '='], '-=': ['+=', '='], '*=': ['=', '+='], '/=': ['*='], '|=': ['='], '++': ['--'],
              '--': ['++']}
_NAMES = {'min': 'max', 'max': 'min', 'true': 'false', 'false': 'true', 'notify_all': 'notify_one',
          'front': 'back', 'back': 'front', 'first': 'last', 'last': 'first', 'begin': 'end', 'end': 'begin',
          'forward': 'backward', 'backward': 'forward', 'rows': 'columns'}
_KINDS = {'comparison': {'<', '<=', '>', '>=', '==', '!='}, 'logic': {'&&', '||'},
          'assignment': {'+=', '-=', '*=', '/=', '|=', '++', '--'}}
# Dropping these changes speed or words alone.
_WORDS = {'log', 'reserve', 'shrink_to_fit', 'static_cast', 'prefetch', 'setw'}


def _kind(mark):
    return next((kind for kind, marks in _KINDS.items() if mark in marks), 'arithmetic')


def mutations(source, slot):
    """Pairs of the operator's name and the new text; None for text: the statement is dropped."""
    own = list(source.own_tokens(slot))
    thrown = source.tokens[slot.first].text == 'throw'
    if slot.kind == 'lock':
        yield 'lock removed', None
        return
    if slot.kind == 'statement' and not _only_words(source, slot):
        yield ('throw dropped' if thrown else 'statement dropped'), None
    if thrown or any(source.tokens[i].kind in ('string', 'raw') for i in own):
        return  # words of messages
    if slot.kind == 'condition':
        yield 'condition negated', f'!({source.flat(slot.first, slot.last)})'
    for i in own:
        for name, text in _at(source, i):
            yield name, source.flat(slot.first, slot.last, {i: text})
    yield from _swaps(source, slot, own)
    yield from _off_by_one(source, slot, own)


def _only_words(source, slot):
    names = {source.tokens[i].text for i in range(slot.first, min(slot.first + 6, slot.last))}
    return bool(names & _WORDS) or slot.last - slot.first < 3


def _at(source, i):
    token = source.tokens[i]
    before, after = source.tokens[i - 1], source.tokens[i + 1]
    if token.kind == 'mark' and token.text in _OPPOSITES:
        binary = before.end != token.begin and token.end != after.begin and (
            before.kind in ('name', 'number') or before.text in (')', ']', '}')) and before.text != 'return'
        if binary or token.text in ('++', '--', '+=', '-='):
            for other in _OPPOSITES[token.text]:
                yield _kind(token.text), other
    elif token.text == '!' and token.kind == 'mark':
        yield 'negation dropped', ''
    elif token.kind == 'number' and token.text.isdigit():
        yield 'constant', str(int(token.text) + 1)
        if int(token.text) > 0:
            yield 'constant', str(int(token.text) - 1)
    elif token.text in ('begin', 'end') and after.text == '(':
        return  # of containers: nothing but crashes
    elif token.kind == 'name' and token.text in _NAMES:
        yield 'other name', _NAMES[token.text]


def _arguments(source, opening):
    """The arguments behind this parenthesis, as ranges of tokens."""
    first, closing = opening + 1, source.partner[opening]
    ranges = []
    for i in source._top(first, closing):
        if source.tokens[i].text == ',':
            ranges.append((first, i))
            first = i + 1
    return ranges + [(first, closing)]


def _swaps(source, slot, own):
    for i in own:
        if source.tokens[i].text != '(' or source.tokens[i - 1].kind != 'name' or (
                source.tokens[i - 1].text in ('min', 'max')):
            continue
        ranges = _arguments(source, i)
        for (a, b), (c, d) in zip(ranges, ranges[1:]):
            one, other = source.flat(a, b), source.flat(c, d)
            if 0 < b - a <= 6 and 0 < d - c <= 6 and one != other and '{' not in one + other and '<' not in one + other:
                text = source.flat(slot.first, a) + other + ', ' + one + source.flat(d, slot.last)
                yield 'arguments swapped', text


def _off_by_one(source, slot, own):
    texts = {source.tokens[i].text for i in own}
    if 'begin' in texts:
        return  # pointers
    text = source.flat(slot.first, slot.last)
    if slot.kind == 'value' and texts & {'+', '-', '*', '/', 'size', 'count'}:
        yield 'off by one', f'({text}) + 1'
        yield 'off by one', f'({text}) - 1'
    if slot.kind == 'statement' and texts & {'+=', '-='}:
        yield 'off by one', f'{text} - 1'
        yield 'off by one', f'{text} + 1'
