"""Templates of conversations: files of text with places such as `{source}`.

A line `### system`, `### user` or `### assistant` begins a message of that role, so a file can show the model examples
before the question. A file without such a line is one message of the user. Braces around anything but a single word
are text: JSON in a prompt needs no escapes.

    >>> template = Template.of("Is {a} better than {b}? Answer {\\"better\\": ...}", needs=("a", "b"))
    >>> template.messages({"a": "Hund", "b": "Katze"})
    [{'role': 'user', 'content': 'Is Hund better than Katze? Answer {"better": ...}'}]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines
from candidates.lists import check_text

Message = dict[str, str]

_PLACE = re.compile(r"\{([^\W\d]\w*)\}")
_ROLE = re.compile(r"### *(system|user|assistant) *")


@dataclass(frozen=True)
class Template:
    """Messages with places, as (role, text). Make it with `of` or `read`, which check the places."""

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, text: str, needs: Iterable[str], takes: Iterable[str] = (), called: str = "the prompt") -> Template:
        """A template from its text.

        Args:
            text: of the whole file.
            needs: places that must be in it.
            takes: places that may be in it.
            called: its name in messages.

        Raises:
            UsageError: a place is missing or unknown, or the last message is not the user's.
        """
        check_text(text, called)
        needed = tuple(needs)
        expected = f"expected {', '.join(f'{{{name}}}' for name in (*needed, *takes))}"
        template = cls(tuple(_parts(text)))
        places = template.places
        for name in sorted(places - {*needed, *takes}):
            raise UsageError(
                f"{called} has a place {{{name}}}; {expected} only; correct it, or put a space inside braces that are "
                "meant as text"
            )
        for name in needed:
            if name not in places:
                raise UsageError(f"{called} has no {{{name}}}; {expected}; put it where the text goes")
        if template.parts[-1][0] != "user":
            raise UsageError(f"{called} ends with a message of the {template.parts[-1][0]}; expected one of the user")
        return template

    @classmethod
    def read(cls, path: str | Path, needs: Iterable[str], takes: Iterable[str] = ()) -> Template:
        """A template from a file; errors as of `of`, and InputError where it cannot be read."""
        text = "\n".join(line for _, line in lines(path))
        if not text.strip():
            raise InputError(f"{path}: an empty file; expected a prompt")
        return cls.of(text, needs, takes, called=str(path))

    def messages(self, values: Mapping[str, str]) -> list[Message]:
        """The conversation, its places filled. What stands in a value is text, also where it looks like a place."""
        return [{"role": role, "content": filled(text, values)} for role, text in self.parts]

    @property
    def places(self) -> set[str]:
        return set().union(*(places_of(text) for _, text in self.parts))

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that change when the template does."""
        return hashlib.blake2b(repr(self.parts).encode(), digest_size=4).hexdigest()


def places_of(text: str) -> set[str]:
    """The names of the places in a text."""
    return set(_PLACE.findall(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with a value for each of its places."""
    return _PLACE.sub(lambda place: values[place[1]], text)


def _parts(text: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if role := _ROLE.fullmatch(line):
            parts.append((role[1], []))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            parts.append(("user", [line]))
    return [(role, "\n".join(content).strip()) for role, content in parts] or [("user", "")]
