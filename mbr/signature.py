"""The signature of a result: everything that may change a decision, and nothing that may not.

It prints on one line and parses back, in the manner of sacrebleu's:

    MBR|utility:chrf|strategy:full|self:exclude|nbest:all|weights:count|version:0.1.0

Batch size, device and file names are left out on purpose: they change no decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from candidates.common.errors import InputError

HEAD = "MBR"


class Signature(Mapping[str, str]):
    """An ordered, read-only table of settings; None values are left out. `|` and line breaks print as %7C and so on."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = {key: str(value) for key, value in settings.items() if value is not None}

    @classmethod
    def parse(cls, text: str) -> Signature:
        head, *fields = text.strip().split("|")
        if head != HEAD or not all(":" in field for field in fields):
            raise InputError(f"not a signature: {text!r:.100}; expected {HEAD}|key:value|...")
        return cls({key: unquote(value) for key, value in (field.split(":", 1) for field in fields)})

    def difference(self, other: Signature) -> dict[str, tuple[str | None, str | None]]:
        """The settings in which two signatures differ, as (this, other)."""
        keys = dict.fromkeys([*self, *other])
        return {key: (self.get(key), other.get(key)) for key in keys if self.get(key) != other.get(key)}

    def __getitem__(self, key: str) -> str:
        return self._settings[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __str__(self) -> str:
        return "|".join([HEAD, *(f"{key}:{_escaped(value)}" for key, value in self.items())])

    def __repr__(self) -> str:
        return f"Signature({str(self)!r})"


def _escaped(value: str) -> str:
    for character in "%|\n\r":
        value = value.replace(character, f"%{ord(character):02X}")
    return value
