"""Placeholders that a program fills in: printf, Python, Java and ICU MessageFormat, ${}, {{}}.

- printf: `%d`, `%5.2f`, `%1$s`, `%(name)s`, `%@`, `%%`, `%{name}`. Argument and conversion must stay; `%s ... %s` may
  become `%2$s ... %1$s`.
- Python, Java, C#: `{}`, `{0}`, `{name!r:>10}`, `{0,number,#.##}`. The whole field must stay; `{} {}` may become
  `{1} {0}`.
- ICU: `{count, plural, one {# file} other {# files}}`. Argument, kind, the keys of `select`, the placeholders in the
  branches and the `#` of the branch `other` must stay.
- Templates: `${name}`, `{{ name }}`, `{% if x %}`. The whole must stay, but for white space inside.

Plural categories belong to the language, so other ones are right in a translation; `other` must be there. Fields may
come in any order. Every occurrence counts, except those in the branches of a plural, where each counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator

from mbr.guards.base import Guard, ListTexts, severity
from mbr.guards.marks import by_mark

_SIGNS = re.compile(r"[{%]")
# A conversion. After a number (100 %ige) and for the rarer ones (20 %für), no letter may follow it.
_PRINTF = re.compile(
    r"%(?:"
    r"(?P<literal>%)"
    r"|\((?P<name>\w+)\)(?P<named>[-+#0]*\d*(?:\.\d+)?[a-zA-Z])"
    r"|\{(?P<ruby>\w+)\}"
    r"|(?:(?P<place>\d+)\$)?(?P<flags>[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|q|z|j|t)?)"
    r"(?P<kind>[ds](?![a-zäöüß]{2})|[diouxXeEfFgGcsp@](?![^\W\d_]))"
    r")"
)
_AFTER_NUMBER = re.compile(r"\d[ \u00a0\u202f]?$")
_TEMPLATE = re.compile(r"\{\{\{?-?\s*([^{}]*?)\s*-?\}?\}\}|\{%-?\s*(.*?)\s*-?%\}|\$\{\s*([^{}]*?)\s*\}", re.DOTALL)
_BRANCH = re.compile(r"\s*(=?[\w-]+)\s*\{")
_COUNT = re.compile(r"(?<!')#(?!')")  # of a plural; between apostrophes it is a sign
_ARGUMENT = re.compile(r"[\w.\[\]-]*")


class Placeholders(Guard):
    """The same placeholders as the source."""

    name = "placeholders"
    summary = "the placeholders of the source: %s, {name}, {n, plural, ...}, ${x}, {{x}}"

    def faults(self, listed: ListTexts) -> list[float]:
        if not _SIGNS.search(listed.source) and "%" not in listed.joined and "{" not in listed.joined:
            return listed.kept
        expected = placeholders(listed.source)
        return by_mark(listed, lambda mark: severity(expected, placeholders(mark)))


def placeholders(text: str) -> Counter[Hashable]:
    """The placeholders of a text, each in one spelling. Placeholders that count on their order are numbered."""
    fields: Counter[Hashable] = Counter()
    if "%" not in text and "{" not in text:
        return fields
    rest = _TEMPLATE.sub(lambda match: _noted(fields, match), text)
    rest = _without_braces(rest, fields) if "{" in rest else rest
    place = 0
    for match in _PRINTF.finditer(rest):
        if match["literal"]:
            fields["%%"] += 1
        elif match["name"] or match["ruby"]:
            fields["%", match["name"] or match["ruby"], match["named"]] += 1
        elif not _is_percentage(rest, match):
            place += match["place"] is None
            fields["%", int(match["place"] or place), match["flags"] + match["kind"]] += 1
    return fields


def _noted(fields: Counter[Hashable], match: re.Match[str]) -> str:
    opening = match[0][:2]
    fields[opening, " ".join((match[1] or match[2] or match[3] or "").split())] += 1
    return "\0"


def _is_percentage(text: str, match: re.Match[str]) -> bool:
    """Whether it is a percent sign after a number with a word behind it, as in `100 %sig`."""
    after_letter = match.end() < len(text) and text[match.end()].isalpha()
    return after_letter and _AFTER_NUMBER.search(text, max(match.start() - 2, 0), match.start()) is not None


def _without_braces(text: str, fields: Counter[Hashable]) -> str:
    """The text without its brace fields, which are counted."""
    kept, end, place = [], 0, 0
    for begin, close in _groups(text):
        kept.append(text[end:begin])
        end = close + 1
        inside = text[begin + 1 : close]
        field = _field(inside)
        if field is None:
            kept.append(text[begin:end])
            continue
        for part in field:
            if part == ("{", ""):
                part = ("{", str(place))
                place += 1
            fields[part] += 1
    return "".join([*kept, text[end:]])


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """The outermost pairs of braces; a brace without its partner is none."""
    depth, begin = 0, -1
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            if not depth:
                begin = match.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield begin, match.start()


def _field(inside: str) -> list[Hashable] | None:
    """What a field must keep; None where the braces hold plain text."""
    name, comma, rest = inside.partition(",")
    name = name.strip()
    if comma and _ARGUMENT.fullmatch(name):
        kind, _, style = rest.partition(",")
        kind = kind.strip()
        if kind in ("plural", "select", "selectordinal"):
            return _choice(name, kind, style)
        if re.fullmatch(
            r"-?\d+|number|date|time|spellout|ordinal|duration|choice|list", kind.partition(":")[0].strip()
        ):
            return [("{", name, "".join(rest.split()))]
    argument = re.match(r"[\w.\[\]-]*(?:![rsa])?(?::[^{}\n]*(?:\{[^{}]*\})?)?$", inside.strip())
    return [("{", inside.strip())] if argument is not None else None


def _choice(name: str, kind: str, style: str) -> list[Hashable]:
    """An ICU plural or select: argument and kind, the keys that are fixed, and what its branches hold."""
    keys: list[str] = []
    inside: set[Hashable] = set()
    end = 0
    for begin, close in _groups(style):
        key, branch = _BRANCH.search(style, end, begin + 1), style[begin + 1 : close]
        keys.append(key[1] if key else "")
        inside |= placeholders(branch).keys()
        if kind != "select" and keys[-1] == "other" and _COUNT.search(branch):
            inside.add("#")  # other branches may say the number: {eine Datei}
        end = close + 1
    fixed = sorted(keys) if kind == "select" else ["other"] if "other" in keys else []
    return [("{", name, kind, *fixed), *(("in", name, part) for part in inside)]
