"""Write formulas, their parts and schemas as CEQL; parsing the text gives an equal formula.

Only the parentheses that the precedence asks for are written, plus two sorts that help
the reader: around a chain before FILTER, and around `φ AS x` before an iteration. A name
that is a keyword or not a plain word stands in backquotes. Linear in the size of the
formula; recursive, so the depth limit of `cernis.pattern.check` must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from cernis.errors import Span
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.functions import find_function
from cernis.schema import Attributes, Schema, Stream

_WORDS = (
    "AFTER ALL AND ANY AS ASC AVG BEFORE BY CONSUME COUNT CREATE DAY DAYS DECLARE DECREASING "
    "DESC DISTINCT END EVENT EVENTS EVERY FALSE FILTER FIRST FOR FORGET FROM GROUP HAVING HOUR "
    "HOURS IN INCREASING INSERT INTO IS JOIN LAST LEFT LIKE LIMIT LONGEST MAX MILLISECOND "
    "MILLISECONDS MIN MINUTE MINUTES NEXT NONDECREASING NONE NONINCREASING NOT NULL OF ON OR "
    "PARTITION PREV RANGE SECOND SECONDS SELECT START STREAM STRICT SUM SUPPRESS TO TRUE UNLESS "
    "WHERE WITHIN WITHOUT"
)
KEYWORDS = frozenset(_WORDS.split())
"""The words that a name written without backquotes may not be, in any case."""

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")

_SECOND = 1_000_000_000
_UNITS = (
    ("DAY", 86_400 * _SECOND),
    ("HOUR", 3_600 * _SECOND),
    ("MINUTE", 60 * _SECOND),
    ("SECOND", _SECOND),
    ("MILLISECOND", 1_000_000),
)


# ------------------------------------------------------------------------- names


def capitalize_ascii(word: str) -> str:
    """Return a word as keywords are listed, in capitals; one of other letters is no keyword.

    >>> capitalize_ascii("within"), capitalize_ascii("wıthın")
    ('WITHIN', 'wıthın')
    """
    return word.upper() if word.isascii() else word


def write_name(name: str) -> str:
    """Write a name, in backquotes where it needs them.

    >>> write_name("price"), write_name("order id"), write_name("limit")
    ('price', '`order id`', '`limit`')
    """
    if _PLAIN_NAME.fullmatch(name) and capitalize_ascii(name) not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def _write_path(path: Iterable[str]) -> str:
    return ".".join(map(write_name, path))


def write_dotted(name: str) -> str:
    """Write an attribute by its dotted name; a calculated attribute is named by its text."""
    if name.endswith(")"):
        return name
    path = name.split(".")
    return _write_path(path) if all(path) else write_name(name)


# ------------------------------------------------------------ values, predicates


def _write_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _write_literal(literal: pred.Literal) -> str:
    match literal.value:
        case bool(flag):
            return "TRUE" if flag else "FALSE"
        case str(text):
            return _write_text(text)
        case Decimal() as number:
            digits = f"{number:f}" if abs(number.adjusted()) < 40 else f"{number:e}"
            return digits if "." in digits or "e" in digits else f"{digits}.0"
        case number:
            return repr(number)


_VALUE_LEVEL = {"+": 3, "-": 3, "*": 2, "/": 2, "%": 2}


def _value_level(value: pred.Value) -> int:
    return _VALUE_LEVEL[value.op] if isinstance(value, pred.Arithmetic) else 1


def _write_inner_value(value: pred.Value, level: int) -> str:
    text = write_value(value)
    return text if _value_level(value) <= level else f"({text})"


def name_calculated(value: pred.Value) -> pred.Attribute:
    """Return the attribute that has this value: itself, or a calculated one.

    Its name is its text, from which `cernis.events` computes it.

    >>> name_calculated(pred.Arithmetic("*", pred.Literal(2), pred.Attribute(("a",)))).name
    '(2 * a)'
    """
    if isinstance(value, pred.Attribute):
        return value
    text = write_value(value)
    name = text if isinstance(value, pred.Call) else f"({text})"
    return pred.Attribute((name,), value=value, span=value.span)


def call_terms(
    function: str, arguments: tuple[pred.MatchTerm, ...], span: Span | None = None
) -> pred.MatchTerm:
    """Return a function of terms; of the attributes of one event, it is an attribute of it.

    >>> a, b = (pred.Reference(x, pred.Attribute(("u",))) for x in "ab")
    >>> write_term(call_terms("LOWER", (a,))), write_term(call_terms("CONCAT", (a, b)))
    ('a[LOWER(u)]', 'CONCAT(a[u], b[u])')
    """
    call = pred.TermCall(capitalize_ascii(function), arguments, span=span)
    value = pred.to_value(call)
    parts = (part for part in pred.walk_term(call) if isinstance(part, pred.Reference))
    sides = {(part.variable, part.previous) for part in parts}
    if value is None or len(sides) != 1:
        return call
    ((variable, previous),) = sides
    return pred.Reference(variable, name_calculated(value), previous=previous, span=span)


def choose_terms(
    branches: Sequence[tuple[pred.Condition, pred.MatchTerm]],
    otherwise: pred.MatchTerm | None = None,
    span: Span | None = None,
) -> pred.MatchTerm | None:
    """Return CASE of terms; of the attributes of one event, it is an attribute of it.

    None: a condition looks at neighbours.
    """
    terms = [term for _, term in branches] + ([] if otherwise is None else [otherwise])
    conditions = [condition for condition, _ in branches]
    names = {name for term in terms for name in pred.variables_of(term)}
    leaves = [leaf for condition in conditions for leaf in pred.leaves(condition)]
    names.update(name for leaf in leaves for name in pred.leaf_variables(leaf))
    values = [value for term in terms if (value := pred.to_value(term)) is not None]
    tests = [test for each in conditions if (test := pred.to_predicate(each)) is not None]
    if len(names) == 1 and len(tests) == len(conditions) and len(values) == len(terms):
        last = values[-1] if otherwise is not None else None
        case = pred.Case(tuple(zip(tests, values, strict=False)), last, span=span)
        return pred.Reference(names.pop(), name_calculated(case), span=span)
    truths = [truth for each in conditions if (truth := to_truth(each)) is not None]
    if len(truths) < len(conditions):
        return None
    pairs = [each for pair in zip(truths, terms, strict=False) for each in pair]
    return pred.TermCall("CASE", (*pairs, *terms[len(branches) :]), span=span)


def to_truth(condition: pred.Condition) -> pred.MatchTerm | None:
    """Return the truth of a condition as a term; None: it is no value of single events."""
    match condition:
        case pred.Holds(variable=variable, predicate=test, span=span):
            branches = (test, pred.Literal(True)), (pred.Negation(test), pred.Literal(False))
            return pred.Reference(variable, name_calculated(pred.Case(branches)), span=span)
        case pred.Compare(op=op, left=left, right=right, adjacent=False, shift=None, span=span):
            return pred.TermCall(op, (left, right), span=span)
        case pred.CompareTerms(op=op, left=one, right=other, span=span):
            return pred.TermCall(op, (one, other), span=span)
        case pred.Denied(body=body, span=span):
            denied = to_truth(body)
            return None if denied is None else pred.TermCall("NOT", (denied,), span=span)
        case pred.AllOf(parts=parts, span=span) | pred.AnyOf(parts=parts, span=span):
            terms = tuple(term for part in parts if (term := to_truth(part)) is not None)
            word = "AND" if isinstance(condition, pred.AllOf) else "OR"
            return pred.TermCall(word, terms, span=span) if len(terms) == len(parts) else None
    return None


def write_value(value: pred.Value) -> str:
    """Write a value as it stands between brackets.

    >>> total = pred.Arithmetic("+", pred.Attribute(("a",)), pred.Literal(1))
    >>> write_value(pred.Arithmetic("*", total, pred.Literal(-2)))
    '(a + 1) * -2'
    """
    match value:
        case pred.Attribute() if value.value is not None:
            return write_value(value.value)
        case pred.Attribute(path=path):
            return _write_path(path)
        case pred.Literal():
            return _write_literal(value)
        case pred.Negative(body=pred.Attribute() | pred.Call() | pred.Case() as body):
            return f"-{write_value(body)}"
        case pred.Negative(body=body):
            return f"-({write_value(body)})"
        case pred.Arithmetic(op=op, left=left, right=right):
            level = _VALUE_LEVEL[op]
            return f"{_write_inner_value(left, level)} {op} {_write_inner_value(right, level - 1)}"
        case pred.Call(function=function, arguments=arguments):
            return _write_call(function, [write_value(each) for each in arguments])
        case pred.Case(branches=branches, otherwise=otherwise):
            text = " ".join(
                f"WHEN {write_predicate(test)} THEN {write_value(each)}" for test, each in branches
            )
            other = "" if otherwise is None else f" ELSE {write_value(otherwise)}"
            return f"CASE {text}{other} END"


def _write_call(function: str, arguments: list[str]) -> str:
    if function == "CAST":
        zone = f", {arguments[2]}" if len(arguments) > 2 else ""
        return f"CAST({arguments[0]} AS {arguments[1][1:-1]}{zone})"
    return f"{function}({', '.join(arguments)})"


def _is_test(function: str, value: object) -> bool:
    """Whether a comparison of a call with a constant is that call as a condition."""
    known = find_function(function)
    return known is not None and known.gives == "boolean" and value is True


def _predicate_level(predicate: pred.Predicate) -> int:
    match predicate:
        case pred.Or():
            return 3
        case pred.And():
            return 2
        case _:
            return 1


def _write_inner_predicate(predicate: pred.Predicate, level: int) -> str:
    text = write_predicate(predicate)
    return text if _predicate_level(predicate) <= level else f"({text})"


def write_predicate(predicate: pred.Predicate) -> str:
    """Write a predicate as it stands between brackets.

    >>> write_predicate(pred.Negation(pred.Like(pred.Attribute(("name",)), "MS.*")))
    "NOT name LIKE 'MS.*'"
    """
    match predicate:
        case pred.Comparison("=", pred.Call(function=name) as call, pred.Literal(value=flag)) if (
            _is_test(name, flag)
        ):
            return write_value(call)
        case pred.Comparison(op=op, left=left, right=right):
            return f"{write_value(left)} {op} {write_value(right)}"
        case pred.Like(body=body, pattern=pattern):
            return f"{write_value(body)} LIKE {_write_text(pattern)}"
        case pred.InSet(body=body, values=values):
            return f"{write_value(body)} IN {{{', '.join(map(_write_literal, values))}}}"
        case pred.InRange(body=body, low=low, high=high):
            return f"{write_value(body)} IN {{{_write_literal(low)}..{_write_literal(high)}}}"
        case pred.AnyElement(body=body, name=name, predicate=test):
            return f"ANY({write_value(body)}, {write_name(name)} -> {write_predicate(test)})"
        case pred.IsNull(body=body, negated=negated):
            return f"{write_value(body)} IS {'NOT ' if negated else ''}NULL"
        case pred.And(parts=parts):
            return " AND ".join(_write_inner_predicate(part, 1) for part in parts)
        case pred.Or(parts=parts):
            return " OR ".join(_write_inner_predicate(part, 2) for part in parts)
        case pred.Negation(body=inner):
            return f"NOT {_write_inner_predicate(inner, 1)}"


# ------------------------------------------------------------------------- terms


def write_reference(reference: pred.Reference) -> str:
    owner = write_name(reference.variable)
    if reference.previous:
        owner = f"PREV({owner})"
    match reference.attribute.value:
        case pred.Call(function=function, arguments=arguments) if _is_test(function, True):
            # between brackets it would be a condition
            return _write_call(
                function,
                [
                    f"{owner}[{write_value(each)}]"
                    if any(pred.attributes_of(each))
                    else write_value(each)
                    for each in arguments
                ],
            )
    return f"{owner}[{write_value(reference.attribute)}]"


def write_previous(reference: pred.Reference) -> str:
    """Write the side of a comparison that stands for the event before."""
    return write_reference(replace(reference, previous=True))


def _term_level(term: pred.MatchTerm) -> int:
    return _VALUE_LEVEL[term.op] if isinstance(term, pred.Calculation) else 1


def _write_inner_term(term: pred.MatchTerm, level: int) -> str:
    text = write_term(term)
    return text if _term_level(term) <= level else f"({text})"


def write_term(term: pred.MatchTerm) -> str:
    """Write a term.

    >>> a = pred.Reference("a", pred.Attribute(("price",)))
    >>> write_term(pred.Calculation("*", pred.Literal(2), pred.Calculation("-", a, a)))
    '2 * (a[price] - a[price])'
    """
    match term:
        case pred.Reference():
            return write_reference(term)
        case pred.Literal():
            return _write_literal(term)
        case pred.IntervalTime(which=which):
            return which
        case pred.ConstantDuration(nanoseconds=nanoseconds):
            return write_duration(nanoseconds)
        case pred.Opposite(body=pred.Calculation() | pred.Opposite() | pred.Literal() as body):
            return f"-({write_term(body)})"
        case pred.Opposite(body=body):
            return f"-{write_term(body)}"
        case pred.Calculation(op=op, left=left, right=right):
            level = _VALUE_LEVEL[op]
            return f"{_write_inner_term(left, level)} {op} {_write_inner_term(right, level - 1)}"
        case pred.Aggregate(function=function, argument=argument, distinct=distinct):
            match argument:
                case None:
                    inside = "*"
                case str(variable):
                    inside = write_name(variable)
                case reference:
                    inside = write_reference(reference)
            return f"{function}({'DISTINCT ' if distinct else ''}{inside})"
        case pred.TermCall(function="CASE", arguments=arguments):
            pairs = zip(arguments[::2], arguments[1::2], strict=False)
            whens = (f"WHEN {_write_truth(test)} THEN {write_term(each)}" for test, each in pairs)
            last = f" ELSE {write_term(arguments[-1])}" if len(arguments) % 2 else ""
            return f"CASE {' '.join(whens)}{last} END"
        case pred.TermCall(function=function, arguments=arguments):
            return _write_call(function, [write_term(each) for each in arguments])


def _write_truth(term: pred.MatchTerm, *, inside: bool = False) -> str:
    """Write a condition of CASE that is a term."""
    match term:
        case pred.TermCall(function="AND" | "OR" as word, arguments=arguments):
            text = f" {word} ".join(_write_truth(each, inside=True) for each in arguments)
            return f"({text})" if inside else text
        case pred.TermCall(function="NOT", arguments=(body,)):
            return f"NOT {_write_truth(body, inside=True)}"
        case pred.TermCall(
            function="=",
            arguments=(pred.TermCall(function=name) as call, pred.Literal(value=flag)),
        ) if _is_test(name, flag):
            return write_term(call)
        case pred.TermCall(function=op, arguments=(one, other)):
            return f"{write_term(one)} {op} {write_term(other)}"
        case pred.Reference(
            variable=variable, attribute=pred.Attribute(value=pred.Case(branches=((test, _), *_)))
        ):
            return f"{write_name(variable)}[{write_predicate(test)}]"
    return write_term(term)


# -------------------------------------------------------------------- conditions


def _write_inner_condition(condition: pred.Condition, loosest: type[pred.AllOf] | None) -> str:
    text = write_condition(condition)
    if isinstance(condition, pred.AnyOf) or (isinstance(condition, pred.AllOf) and loosest is None):
        return f"({text})"
    return text


def write_condition(condition: pred.Condition) -> str:
    """Write the condition of a filter.

    >>> price = pred.Attribute(("price",))
    >>> a, b = pred.Reference("a", price), pred.Reference("b", price)
    >>> write_condition(pred.Compare("<", a, b))
    'a[price] < b[price]'
    >>> write_condition(pred.Compare("<", a, b, adjacent=True))
    'PREV(a)[price] < b[price]'
    """
    match condition:
        case pred.Holds(variable=variable, predicate=predicate):
            return f"{write_name(variable)}[{write_predicate(predicate)}]"
        case pred.Compare(origin=pred.CompareNeighbours() | pred.CompareTerms() as origin):
            return write_condition(origin)
        case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
            earlier = write_previous(left) if adjacent else write_reference(left)
            more = "" if shift is None else f" + {shift}" if shift >= 0 else f" - {-shift}"
            return f"{earlier} {op} {write_reference(right)}{more}"
        case pred.CompareTerms("=", pred.TermCall(function=name) as call, pred.Literal(flag)) if (
            _is_test(name, flag)
        ):
            return write_term(call)
        case (
            pred.CompareTerms(op=op, left=left, right=right)
            | pred.CompareNeighbours(op=op, left=left, right=right)
        ):
            return f"{write_term(left)} {op} {write_term(right)}"
        case pred.Monotone(variable=variable, attribute=attribute, op=op):
            word = next(word for word, its in pred.MONOTONE.items() if its == op)
            return f"{write_name(variable)} {word} BY {write_value(attribute)}"
        case pred.Denied(body=body):
            return f"NOT {write_condition(body)}"
        case pred.AllOf(parts=parts):
            return " AND ".join(_write_inner_condition(part, None) for part in parts)
        case pred.AnyOf(parts=parts):
            return " OR ".join(_write_inner_condition(part, pred.AllOf) for part in parts)


# ---------------------------------------------------------------------- formulas

_PRIMARY, _POSTFIX, _SEQUENCE, _CONTIGUOUS, _ALL, _CHOICE, _UNLESS, _FILTER = range(8)


def _formula_level(formula: cel.Formula) -> int:
    match formula:
        case cel.Event() | cel.Not() | cel.PartitionBy() | cel.Within():
            return _PRIMARY
        case cel.As() | cel.Iterate() | cel.Optional():
            return _POSTFIX
        case cel.Sequence():
            return _SEQUENCE
        case cel.Contiguous():
            return _CONTIGUOUS
        case cel.All():
            return _ALL
        case cel.Choice():
            return _CHOICE
        case cel.Unless():
            return _UNLESS
        case cel.Filter():
            return _FILTER


def _write_inner_formula(formula: cel.Formula, level: int) -> str:
    text = write_formula(formula)
    return text if _formula_level(formula) <= level else f"({text})"


def _write_chain(parts: tuple[cel.Formula, ...], operator: str, level: int) -> str:
    return operator.join(_write_inner_formula(part, level - 1) for part in parts)


def _write_sequence(formula: cel.Sequence) -> str:
    text = ""
    for i, part in enumerate(formula.parts):
        if i:
            separator = formula.separator_before(i)
            text += f" {'->' if separator.next else ';'}{_write_gap(separator.gap)} "
        text += _write_inner_formula(part, _POSTFIX)
    return text


def _write_bounds(formula: cel.Iterate) -> str:
    low, high = formula.low, formula.high
    link = ":" if formula.contiguous else "->" if formula.separator.next else ""
    bounds = "+" if low == 1 else f"{{{low},}}"
    if high is not None:
        bounds = f"{{{low}}}" if low == high else f"{{{low},{high}}}"
    return f"{link}{bounds}{_write_gap(formula.separator.gap)}"


def _write_gap(gap: Gap | None) -> str:
    return "" if gap is None else f"[{write_gap(gap)}]"


def write_gap(gap: Gap) -> str:
    """Write a gap.

    >>> write_gap(Gap(Unit.TIME, Fraction(300_000_000_000), Fraction(60_000_000_000)))
    '1 MINUTE TO 5 MINUTES'
    """
    if gap.unit is Unit.EVENTS:
        least = f"{write_decimal(gap.least)} TO " if gap.least else ""
        return f"{least}{write_decimal(gap.most)} EVENTS"
    least = f"{write_duration(gap.least)} TO " if gap.least else ""
    return f"{least}{write_duration(gap.most)}"


def _write_repeated(formula: cel.Formula) -> str:
    loosest = _PRIMARY if isinstance(formula, cel.As) else _POSTFIX
    return _write_inner_formula(formula, loosest)


def _write_event(kind: str, stream: str | None) -> str:
    if kind == cel.ANY_TYPE:
        return kind
    prefix = "" if stream is None else f"{write_name(stream)}>"
    return prefix + write_name(kind)


def write_operand(formula: cel.Formula) -> str:
    """Write a formula that another part of the query follows: chains and filters in parentheses.

    >>> write_operand(cel.Sequence((cel.Event("A"), cel.Event("B"))))
    '(A ; B)'
    """
    return _write_inner_formula(formula, _POSTFIX)


def write_formula(formula: cel.Formula) -> str:
    """Write a formula.

    >>> write_formula(cel.Iterate(cel.As(cel.Event("A", "S"), "x"), 2, 4))
    '(S>A AS x){2,4}'
    """
    match formula:
        case cel.Event(type=kind, stream=stream):
            return _write_event(kind, stream)
        case cel.Not(body=body):
            return f"NOT {_write_inner_formula(body, _PRIMARY)}"
        case cel.As(body=body, variable=variable):
            return f"{_write_inner_formula(body, _POSTFIX)} AS {write_name(variable)}"
        case cel.Iterate(body=body):
            return _write_repeated(body) + _write_bounds(formula)
        case cel.Optional(body=body):
            return f"{_write_repeated(body)}?"
        case cel.Sequence():
            return _write_sequence(formula)
        case cel.Contiguous(parts=parts):
            return _write_chain(parts, " : ", _CONTIGUOUS)
        case cel.All(parts=parts):
            return _write_chain(parts, " ALL ", _ALL)
        case cel.Choice(parts=parts):
            return _write_chain(parts, " OR ", _CHOICE)
        case cel.Unless(body=body, guard=guard):
            guarded = _write_inner_formula(body, _UNLESS)
            return f"{guarded} UNLESS {_write_inner_formula(guard, _CHOICE)}"
        case cel.Filter(body=body, condition=condition):
            text = write_formula(body)
            if _POSTFIX < _formula_level(body) < _FILTER:
                text = f"({text})"
            return f"{text} FILTER {write_condition(condition)}"
        case cel.PartitionBy(body=body, keys=keys):
            names = ", ".join(
                write_value(key.attribute)
                if key.variable is None
                else f"{write_name(key.variable)}[{write_value(key.attribute)}]"
                for key in keys
            )
            return f"({write_formula(body)} PARTITION BY [{names}])"
        case cel.Within(body=body, window=window):
            return f"({write_formula(body)} WITHIN {write_window(window)})"


# ---------------------------------------------------------- windows, declarations


def write_decimal(number: Fraction) -> str:
    """Write a number; exact where it has a finite decimal expansion, and windows must have one."""
    digits, rest = 0, number.denominator
    while rest % 10 == 0:
        digits, rest = digits + 1, rest // 10
    while rest % 2 == 0 or rest % 5 == 0:
        digits, rest = digits + 1, rest // 2 if rest % 2 == 0 else rest // 5
    if rest != 1:
        return repr(float(number))
    if digits == 0:
        return str(number.numerator)
    scaled = str(number.numerator * 10**digits // number.denominator).rjust(digits + 1, "0")
    return f"{scaled[:-digits]}.{scaled[-digits:]}"


def write_duration(nanoseconds: Fraction) -> str:
    """Write a duration.

    >>> write_duration(Fraction(330_500_000_000))
    '5 MINUTES 30 SECONDS 500 MILLISECONDS'
    """
    words = []
    rest = nanoseconds
    for unit, size in _UNITS:
        count = rest / size if unit == "MILLISECOND" else Fraction(rest // size)
        rest -= count * size
        if count:
            words.append(f"{write_decimal(count)} {unit}{'' if count == 1 else 'S'}")
    return " ".join(words) or "0 SECONDS"


def write_window(window: Window) -> str:
    """Write the size of a window.

    >>> write_window(Window(Unit.EVENTS, Fraction(10)))
    '10 EVENTS'
    """
    match window.unit:
        case Unit.EVENTS:
            return f"{write_decimal(window.size)} EVENTS"
        case Unit.TIME:
            return write_duration(window.size)
        case Unit.ATTRIBUTE:
            attribute = "" if window.attribute is None else write_value(window.attribute)
            least = "LESS THAN " if window.strict else ""
            return f"{least}{write_decimal(window.size)} [{attribute}]"


def _write_attributes(attributes: Attributes) -> list[str]:
    return [f"{write_dotted(name)}:{kind.value}" for name, kind in attributes.items()]


def _write_braces(members: list[str], separator: str) -> str:
    return f"{{ {separator.join(members)} }}" if members else "{ }"


def _write_stream(stream: Stream) -> str:
    typed = {name for attributes in stream.events.values() for name in attributes}
    loose = {name: kind for name, kind in stream.attributes.items() if name not in typed}
    events = [
        f"EVENT {write_name(event)} {_write_braces(_write_attributes(attributes), ', ')}"
        for event, attributes in stream.events.items()
    ]
    members = events + _write_attributes(loose)
    return f"CREATE STREAM {write_name(stream.name)} {_write_braces(members, ', ')}"


def write_schema(schema: Schema) -> str:
    """Write a schema as declarations, one line for each stream."""
    return "\n".join(map(_write_stream, schema.streams))
