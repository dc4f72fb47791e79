"""Which decisions go to a person: the conditions of `--route`, parsed by a small grammar and never evaluated as code.

    condition  = all { "or" all }
    all        = negation { "and" negation }
    negation   = "not" negation | "(" condition ")" | comparison | flag
    comparison = value ("<" | "<=" | ">" | ">=" | "==" | "!=") value

A value is a number or the name of one: those of `NUMBERS`, or a term of the recipe. A number that a decision does not
have satisfies no comparison. A flag is one of `FLAGS`, or `guard:NAME`; `guard` is any of the latter.

>>> parse_route("margin<0.1 or guard").names
('margin', 'guard')
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.decide import Decision
from mbr.guards import guard_names

NUMBERS: Mapping[str, Callable[[Decision], float | None]] = {
    "margin": lambda decision: decision.margin,
    "estimated_regret": lambda decision: decision.estimated_regret,
    "score": lambda decision: _of_chosen(decision, decision.scores),
    "expected_utility": lambda decision: _of_chosen(decision, decision.expected),
    "contenders": lambda decision: decision.certainty.contenders,
    "unique": lambda decision: len(decision.candidates or ()),
}
FLAGS = ("tie", "single", "truncated", "unseen", "fallback", "error", "guard")
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_GUARD = "guard:"
WORDS = ("and", "or", "not")
DEEPEST = 50  # parentheses and negations in each other
_TOKEN = re.compile(
    r"\s*(?:(?P<sign><=|>=|==|!=|[<>()])|(?P<name>[^\W\d][\w:.-]*)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])))"
)

Condition = Callable[[Decision], bool]
Number = Callable[[Decision], float | None]


@dataclass(frozen=True)
class Route:
    """A condition on decisions, and the names it uses."""

    text: str
    names: tuple[str, ...]
    holds: Condition

    def check_terms(self, terms: Iterable[str]) -> None:
        """Refuse names of terms that the recipe does not have, and of guards that there are not.

        Raises:
            UsageError: there is one.
        """
        terms = list(terms)
        for name in self.names:
            guard = name.removeprefix(_OF_GUARD)
            if guard != name and guard not in guard_names():
                raise UsageError(
                    f"--route: guard {guard!r:.60} is unknown; expected guard alone, or guard: and one of "
                    f"{', '.join(guard_names())}"
                )
            if not _is_flag(name) and name not in NUMBERS and name not in terms:
                expected = ", ".join([*NUMBERS, *terms, *FLAGS, "guard:NAME"])
                raise UsageError(f"--route: {name!r} is unknown here; expected a name out of {expected}")


def parse_route(text: str, terms: Iterable[str] = ()) -> Route:
    """The condition that a text describes.

    Args:
        text: such as `margin<0.1 or guard`.
        terms: names of terms that a recipe may have; those of the recipe itself are checked with `check_terms`.

    Raises:
        UsageError: the text is none, or uses a name that is unknown.
    """
    parser = _Parser(text)
    route = Route(text, (), parser.whole())
    route = Route(text, tuple(dict.fromkeys(parser.names)), route.holds)
    route.check_terms(terms)
    return route


class _Parser:
    """Recursive descent over the tokens of a condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self._depth = 0
        self.names: list[str] = []

    def whole(self) -> Condition:
        condition = self._any()
        if self._token() is not None:
            raise self._wrong("and, or, or the end")
        return condition

    def _any(self) -> Condition:
        conditions = [self._all()]
        while self._takes("or"):
            conditions.append(self._all())
        return lambda decision: any(holds(decision) for holds in conditions)

    def _all(self) -> Condition:
        conditions = [self._negation()]
        while self._takes("and"):
            conditions.append(self._negation())
        return lambda decision: all(holds(decision) for holds in conditions)

    def _negation(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UsageError(f"--route: more than {DEEPEST} parentheses and negations in each other; write it simpler")
        try:
            if self._takes("not"):
                inner = self._negation()
                return lambda decision: not inner(decision)
            if self._takes("("):
                condition = self._any()
                if not self._takes(")"):
                    raise self._wrong(")")
                return condition
            return self._comparison_or_flag()
        finally:
            self._depth -= 1

    def _comparison_or_flag(self) -> Condition:
        token = self._token()
        if token is not None and _is_flag(token):
            self._next += 1
            self.names.append(token)
            if self._token() in COMPARISONS:
                raise UsageError(f"--route: {token} is true or false and not compared; write {token}, or not {token}")
            return lambda decision: _has_flag(decision, token)
        left = self._value()
        sign = self._token() or ""
        if sign not in COMPARISONS:
            raise self._wrong(f"one of {' '.join(COMPARISONS)}, since {token} is a number")
        self._next += 1
        right = self._value()
        compare = COMPARISONS[sign]

        def holds(decision: Decision) -> bool:
            first, second = left(decision), right(decision)
            return first is not None and second is not None and bool(compare(first, second))

        return holds

    def _value(self) -> Number:
        token = self._token()
        if token is None or token in ("(", ")", *COMPARISONS, *WORDS):
            raise self._wrong("a number or a name")
        self._next += 1
        if token[0] in "+-." or token[0].isdigit():
            value = float(token)
            return lambda decision: value
        if _is_flag(token):
            raise UsageError(f"--route: {token} is true or false and not compared; write {token}, or not {token}")
        self.names.append(token)
        number = NUMBERS.get(token) or _term(token)
        return lambda decision: _known(number(decision))

    def _token(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, word: str) -> bool:
        matches = self._token() == word
        self._next += matches
        return matches

    def _wrong(self, expected: str) -> UsageError:
        token = self._token()
        where = "at its end" if token is None else f"at {token!r}"
        return UsageError(f"--route {self._text!r:.200}: {where}, expected {expected}; such as 'margin<0.1 or guard'")

    def _split(self) -> list[str]:
        tokens = []
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None:
                rest = self._text[place:].strip()
                raise UsageError(
                    f"--route {self._text!r:.200}: {rest[:20]!r} is no name, number, parenthesis or comparison "
                    f"({' '.join(COMPARISONS)})"
                )
            tokens.append(match[match.lastgroup or 0])
            place = match.end()
        return tokens


def _is_flag(name: str) -> bool:
    return name in FLAGS or name.startswith(_OF_GUARD)


def _has_flag(decision: Decision, flag: str) -> bool:
    if flag == "error":
        return decision.error is not None
    return flag in decision.flags or (flag == "guard" and any(name.startswith(_OF_GUARD) for name in decision.flags))


def _term(name: str) -> Number:
    return lambda decision: _of_chosen(decision, decision.terms.get(name, ()))


def _of_chosen(decision: Decision, values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """The value of the chosen candidate among values by index; None where there are none."""
    return float(values[decision.ranking[0]]) if decision.ranking and len(values) else None


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
