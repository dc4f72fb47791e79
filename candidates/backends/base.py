"""What every back-end has in common: the base class of generators, and the table of their names.

A generator turns a stream of source sentences into a stream of candidate lists, in order. The candidates of a source
follow from the settings, the seed, and the sources with their places in the input; never from the number of threads
or from where an interrupted run was resumed. A back-end of one's own is a subclass, registered as an entry point of
the group `mbr_decode.backends` (docs/plug-ins.md).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

from candidates.backends.sentences import join_candidates, split_sentences
from candidates.backends.tokens import fit
from candidates.common.arrivals import PAUSE, Pause
from candidates.common.closing import Closing
from candidates.common.plugins import LazyTable
from candidates.formats import Record
from candidates.lists import Candidate, CandidateList, Origin
from candidates.settings import Method, Settings

BACKENDS = LazyTable(
    "back-end",
    {
        "ct2": "candidates.backends.ct2:Ct2Generator",
        "hf": "candidates.backends.hf:HfGenerator",
        "openai": "candidates.backends.openai.generator:ServerGenerator",
    },
    group="mbr_decode.backends",
)


class Generator(Closing):
    """Base of the back-ends: sources in, candidate lists out, in order. Use it with `with`.

    A subclass is called with the model's name and the `Settings`; its keyword arguments are the back-end's options.
    It sets `name` and `settings`, calls `super().__init__()`, and implements `generate`, whose lists `listed` and
    `blank` build. `described` must name everything that may change a candidate.
    """

    name: str
    settings: Settings
    default_method: ClassVar[Method] = "beam"
    splits = False  # whether each sentence of a source is translated by itself

    def __init__(self) -> None:
        self.notices: deque[str] = deque()  # messages for the user; the caller removes the ones it has shown
        self.cut_off = 0  # candidates that reached the length limit before their end
        self.split_sources = 0  # sources of several sentences, each of which was translated by itself
        self.first_split: int | None = None  # the first of them, counted from 0
        self._lock = threading.Lock()
        self._origin: Origin | None = None

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        """One list per source; the lists of the first `skip` sources are left out.

        The skipped sources are read all the same: what is drawn for a source may depend on its place in the input.
        """
        raise NotImplementedError

    def generate_arriving(
        self, sources: Iterable[str], idle: Callable[[], bool], *, skip: int = 0
    ) -> Iterator[Record | Pause]:
        """The same for sources that come over time: where `idle` is true, all before it are answered.

        A `PAUSE` follows those answers. Here every source is translated as if it were the only one, which is right for
        any back-end; one that reads ahead, or draws by place, overrides this to give what `generate` gives.
        """
        for id, source in enumerate(sources):
            if id >= skip:
                yield from (replace(record, id=id) for record in self.generate([source]))
            if idle():
                yield PAUSE

    def described(self) -> dict[str, Any]:
        """Everything that may change a candidate, as texts, numbers and booleans, for signatures and journals."""
        return {"backend": self.name, **self.settings.described()}

    @property
    def origin(self) -> Origin:
        """What `described` returns, as every list of this generator carries it. Computed once."""
        with self._lock:
            if self._origin is None:
                self._origin = Origin.of(self.described())
            return self._origin

    def with_nbest(self, nbest: int) -> Self:
        """The same for lists of another size; the model is shared, and closed with this generator.

        Raises:
            UsageError: the size does not go with the other settings.
        """
        other = copy(self)
        other.settings = replace(self.settings, nbest=nbest)
        other._origin = None
        return other

    def listed(self, source: str, candidates: Iterable[str | Candidate], id: int) -> CandidateList:
        """The candidate list of a source, with its origin."""
        return CandidateList.of(source, candidates, id=id, origin=self.origin)

    def sentences(self, source: str) -> list[str]:
        """The parts of a source to translate: its sentences, or all of it where sources are not split."""
        return split_sentences(source) if self.splits else [source]

    def joined(self, source: str, lists: Sequence[Sequence[Candidate]], id: int) -> CandidateList:
        """The candidate list of a source from those of its sentences; may be called from several threads."""
        if len(lists) > 1:
            with self._lock:
                self.split_sources += 1
                self.first_split = id if self.first_split is None else min(self.first_split, id)
        return self.listed(source, join_candidates(lists, self.settings), id)

    def blank(self, source: str, id: int) -> CandidateList:
        """The list of a blank line: one empty translation, counted `nbest` times."""
        return self.listed(source, [Candidate("", 0.0, self.settings.nbest)], id)

    def fitted(self, tokens: list[str], end: str, positions: int | None, id: int) -> list[str]:
        """The tokens of a source, cut with a notice where the model has fewer positions."""
        cut = fit(tokens, end, positions)
        if len(cut) < len(tokens):
            advice = "" if self.splits else " (--split-sentences translates sentence by sentence)"
            self.notices.append(
                f"segment {id}: {len(tokens)} tokens, but the model reads fewer than {positions}; its end is left "
                f"untranslated{advice}"
            )
        return cut

    def count_cut_off(self, candidates: int) -> None:
        """Add to the number of candidates that reached the length limit; may be called from several threads."""
        with self._lock:
            self.cut_off += candidates

    def close(self) -> None:
        """Release models and threads."""
