"""Terms of a glossary: where the source has one, the candidate has what it must become (`mbr.glossary`)."""

from __future__ import annotations

from mbr.glossary import read_glossary
from mbr.guards.base import Guard, ListTexts


class Glossary(Guard):
    """The target terms of a glossary, where the source has their source terms."""

    name = "glossary"
    summary = "the terms of a glossary (--glossary FILE.tsv)"
    needs = "a glossary (file)"

    def __init__(self, *, file: str) -> None:
        self._glossary = read_glossary(file)

    def settings(self) -> dict[str, object]:
        return {"digest": self._glossary.digest}

    def faults(self, listed: ListTexts) -> list[float]:
        missing, demanded = self._glossary.missing(listed.source, listed.texts)
        return [count / demanded for count in missing] if demanded else listed.kept
