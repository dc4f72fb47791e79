"""What translation models that do not learn said of each text, computed once and kept for the whole training.

A translation model takes most of the time of a training step of `pear.runtime.reader.TranslationReader`, and its
answers are the same in every epoch. They are kept in half precision in the machine's memory, about 25 kB per candidate
of 15 tokens, up to a quarter of what is free at the start.

    keep_translations(encoder)
    ...
    forget_translations(encoder)
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from pear.runtime.reader import Texts, TranslationReader, Translations

NAMES = tuple(field.name for field in fields(Translations))
OF_SOURCES = NAMES[:1]  # the others are of candidates
Answers = dict[tuple[int, ...], dict[str, Tensor]]  # by tokens: of a source, or of a source, -1 and a candidate
GUESS = 4 * 1024**3
SHARE = 0.25  # of the machine's free memory that one process takes


def keep_translations(encoder: Any) -> None:
    """From now on the encoder computes no translation twice; other encoders, and ones whose models learn, are left."""
    if isinstance(encoder, TranslationReader) and not encoder.forward_model.learns:
        encoder.memory = TranslationMemory(encoder)


def forget_translations(encoder: Any) -> None:
    """The encoder translates again, in full precision."""
    if isinstance(encoder, TranslationReader):
        encoder.memory = None


class TranslationMemory:
    """Answers as `TranslationReader.translations` does."""

    def __init__(self, reader: TranslationReader) -> None:
        self._reader = reader
        self._kept: Answers = {}
        self._room = int(SHARE * free_bytes())  # then nothing more is kept

    def __call__(self, texts: Texts) -> Translations:
        sources, candidates = (self._trimmed(each) for each in (texts.sources, texts.candidates))
        pairs = [(*sources[of], -1, *words) for of, words in zip(texts.source_of.tolist(), candidates, strict=True)]
        missing = [k for k, pair in enumerate(pairs) if pair not in self._kept]
        answers: Mapping[tuple[int, ...], dict[str, Tensor]] = self._kept
        if missing:
            some = replace(texts, candidates=texts.candidates[missing], source_of=texts.source_of[missing])
            answers = self._with(self._computed(some, sources, [pairs[k] for k in missing]))
        longest = dict.fromkeys(NAMES, texts.sources.shape[1] + 1)
        longest |= dict.fromkeys(("expected", "chances", "states"), texts.candidates.shape[1] + 1)
        device = texts.sources.device
        parts = {name: [answers[key][name] for key in (sources if name in OF_SOURCES else pairs)] for name in NAMES}
        return Translations(**{name: _padded(parts[name], longest[name]).to(device) for name in NAMES})

    def _with(self, fresh: Answers) -> Mapping[tuple[int, ...], dict[str, Tensor]]:
        """All answers there are with these; they are kept while there is room."""
        if self._room <= 0:
            return ChainMap(fresh, self._kept)
        for key, parts in fresh.items():
            if key not in self._kept:
                self._kept[key] = parts
                self._room -= sum(part.numel() * part.element_size() for part in parts.values())
        return self._kept

    def _trimmed(self, rows: Tensor) -> list[tuple[int, ...]]:
        padding = self._reader.config.pad_token_id
        return [tuple(token for token in row if token != padding) for row in rows.tolist()]

    def _computed(self, texts: Texts, sources: list[tuple[int, ...]], pairs: list[tuple[int, ...]]) -> Answers:
        """The parts of every source, and those of the candidates of `texts`, each without padding."""
        computed = self._reader.translations(texts)
        fresh: Answers = {}
        for k, source in enumerate(sources):
            fresh[source] = {name: _half(getattr(computed, name)[k, : len(source) + 1]) for name in OF_SOURCES}
        for k, (pair, of) in enumerate(zip(pairs, texts.source_of.tolist(), strict=True)):
            of_source = len(sources[of]) + 1
            lengths = {"source_expected": of_source, "source_chances": of_source}
            fresh[pair] = {
                name: _half(getattr(computed, name)[k, : lengths.get(name, len(pair) - of_source + 1)])
                for name in NAMES
                if name not in OF_SOURCES
            }
        return fresh


def free_bytes() -> int:
    """Of this machine's memory; a guess where the system does not report it."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return GUESS


def _half(part: Tensor) -> Tensor:
    return part.detach().to("cpu", torch.float16, copy=True)


def _padded(parts: list[Tensor], longest: int) -> Tensor:
    """[texts, longest, size] with zeros behind the shorter ones."""
    result = parts[0].new_zeros(len(parts), longest, parts[0].shape[-1], dtype=torch.float32)
    for row, part in zip(result, parts, strict=True):
        row[: len(part)] = part
    return result
