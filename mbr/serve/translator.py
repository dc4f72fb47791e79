"""Candidates for a text that comes without any: a generator, asked for one text at a time."""

from __future__ import annotations

import re

from candidates.backends.base import Generator
from candidates.common.closing import Closing
from candidates.common.errors import InputError
from candidates.formats import BadRecord
from candidates.lists import CandidateList, Origin

NAMES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "zh": "Chinese", "ja": "Japanese"}


class Translator(Closing):
    """A generator and its languages, as the LibreTranslate API names them; None where they are not known."""

    def __init__(self, generator: Generator, source: str | None = None, target: str | None = None) -> None:
        self._generator = generator
        pair = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3})(@.*)?", generator.origin.translator)
        self.source = source or (pair[1] if pair else None)
        self.target = target or (pair[2] if pair else None)

    @property
    def origin(self) -> Origin:
        return self._generator.origin

    def candidates(self, text: str, nbest: int) -> CandidateList:
        """The candidates of one text, the same as for a file of this one line."""
        (record,) = self._generator.with_nbest(nbest).generate([text])
        if isinstance(record, BadRecord):
            raise record.error
        self._generator.notices.clear()
        return record

    def check(self, source: str, target: str) -> None:
        """Refuse languages that the model does not translate; `auto` is the one it does.

        Raises:
            InputError: the pair is another one.
        """
        if (self.source and source not in ("auto", self.source)) or (self.target and target != self.target):
            raise InputError(
                f"{source!r:.20} to {target!r:.20} is not supported; this service translates {self.source or 'any'} to "
                f"{self.target or 'any'} (/languages)"
            )

    def languages(self) -> list[dict[str, object]]:
        """The languages as LibreTranslate lists them."""
        if self.source is None or self.target is None:
            return []
        return [
            {"code": code, "name": NAMES.get(code, code), "targets": targets}
            for code, targets in ((self.source, [self.target]), (self.target, []))
        ]

    def close(self) -> None:
        self._generator.close()
