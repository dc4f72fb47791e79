"""The service behind the web application: settings, what is served, scheduler, state. Its requests are made here."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from candidates.common.closing import Closing
from candidates.common.errors import UsageError
from candidates.common.version import __version__
from candidates.lists import Candidate, CandidateList, check_text
from mbr.pipeline import Decoder
from mbr.serve.cache import ScoreCache
from mbr.serve.jobs import OnDeadline, Request, TooLarge, Unavailable
from mbr.serve.scheduler import Scheduler
from mbr.serve.served import LEXICAL, Served
from mbr.serve.settings import Settings
from mbr.serve.tokens import list_tokens, pair_tokens, text_tokens, translation_tokens
from mbr.serve.translator import Translator
from mbr.serve.watch import Watch
from mbr.utilities import QualityUtility

# Callers name their own requests; inside, all lists have this name, since equal requests are joined.
ID = "request"
NO_TRANSLATOR = (
    "this service has no translation model; send candidates to /v1/decode, or start it with --translator MODEL"
)
FEW = 4  # candidates that warm the translator up
QUICK_TRANSLATION = 2.0  # seconds for them; a translator that takes longer, or is far away, is not timed on more


class Service(Closing):
    """What the endpoints use. `start` makes it ready; `reload` replaces what is served."""

    def __init__(self, settings: Settings, *, fallback: bool = False, watch: Watch | None = None) -> None:
        self.settings = settings
        self.fallback = fallback
        self.watch = watch or Watch()
        self.cache = ScoreCache(settings.cache_scores, self.watch)
        self.state: Literal["starting", "ready", "ending"] = "starting"
        self.translator: Translator | None = None
        self._served: Served | None = None
        self._making = (0.0, 0.0)  # tokens of candidates that the translator made to warm up, and seconds
        self._lock = threading.Lock()
        self.scheduler = Scheduler(
            max_queue_tokens=settings.max_queue_tokens,
            max_queue_seconds=settings.max_queue_seconds,
            portion=settings.portion,
            step_tokens=settings.step_tokens,
            fallback=fallback,
            watch=self.watch,
        )

    def start(self, served: Served, translator: Translator | None) -> None:
        """Ready: what is served has been loaded and has decided a list."""
        self.translator = translator
        if translator is not None:
            self._making = self._measured(translator)
        self.reload(served)
        if self.state == "starting":
            self.state = "ready"

    def reload(self, served: Served) -> None:
        """Serve this from now on; requests under way finish with what they began with."""
        speeds = dict(served.speeds)
        if served.translations in speeds:
            tokens, seconds = speeds[served.translations]
            speeds[served.translations] = (tokens + self._making[0], seconds + self._making[1])
        with self._lock:
            self._served = served
            self.scheduler.replace(served.decoders, served.close, speeds)

    def drain(self, seconds: float) -> int:
        """Take no new requests and finish those under way; returns how many are left after `seconds`."""
        self.state = "ending"
        return self.scheduler.drain(seconds)

    def close(self) -> None:
        self.state = "ending"
        self.scheduler.close()
        if self.translator is not None:
            self.translator.close()

    def recipe_name(self, recipe: str | None, utility: str | None = None, *, translation: bool = False) -> str:
        """The name of the decoder for a request.

        Raises:
            UsageError: both are given, or nothing of that name is served.
            Unavailable: nothing is loaded yet.
        """
        served = self._served
        if served is None:
            raise Unavailable("the models are being loaded; try again when /ready answers 200")
        if recipe is not None and utility is not None:
            raise UsageError("the request has both recipe and utility; expected one of them; leave the other out")
        if utility is not None and utility not in LEXICAL:
            users = [name for name, decoder in served.decoders.items() if decoder.utility.name == utility]
            if not users:
                names = dict.fromkeys(decoder.utility.name for decoder in served.decoders.values())
                raise UsageError(f"utility {utility!r:.60} is not served; expected one of {', '.join(names)}")
            return users[0]
        name = utility if recipe is None else recipe
        if name is None:
            return served.translations if translation else served.default
        if name not in served.decoders:
            raise UsageError(f"recipe {name!r:.60} is not served; expected one of {', '.join(served.decoders)}")
        return name

    def list_request(
        self,
        source: str,
        candidates: Sequence[str | Candidate],
        recipe: str,
        *,
        keep_matrix: bool = False,
        timeout: float | None = None,
        on_deadline: OnDeadline = "error",
    ) -> Request:
        """A list to decide."""
        self._check_size(len(candidates))
        item = CandidateList.of(source, candidates, id=ID)
        tokens = list_tokens(self._decoder(recipe), item)
        return Request(
            recipe,
            item,
            keep_matrix=keep_matrix,
            tokens=tokens,
            timeout=timeout or self.settings.timeout,
            on_deadline=on_deadline,
        )

    def translation_request(
        self,
        text: str,
        recipe: str,
        *,
        nbest: int | None = None,
        keep_matrix: bool = False,
        timeout: float | None = None,
        on_deadline: OnDeadline = "error",
    ) -> Request:
        """A text to translate and decide."""
        nbest = nbest or self.settings.nbest
        if nbest > self.settings.max_candidates:
            raise UsageError(
                f"nbest {nbest} is out of range; expected at most {self.settings.max_candidates} (--max-candidates)"
            )
        check_text(text, "text")
        translator = self.translator
        if translator is None:
            raise UsageError(NO_TRANSLATOR)
        return Request(
            recipe,
            prepare=lambda: translator.candidates(text, nbest),
            keep_matrix=keep_matrix,
            tokens=translation_tokens(self._decoder(recipe), text, nbest),
            timeout=timeout or self.settings.timeout,
            on_deadline=on_deadline,
            key=(text, nbest),
        )

    def pairs_request(self, source: str, rows: Sequence[tuple[str, str]], recipe: str) -> Request:
        """Pairs (hypothesis, pseudo-reference) to score."""
        decoder = self._decoder(recipe)
        if isinstance(decoder.utility, QualityUtility):
            raise UsageError(
                f"utility {decoder.utility.name!r} compares no pairs; leave out `source`, with the source as text_1"
            )
        self._check_size(len(rows))
        item = CandidateList.of(source, [text for row in rows for text in row], id=ID)
        number = {text: place for place, text in enumerate(item.texts)}
        pairs = np.array([(number[first], number[second]) for first, second in rows], np.intp)
        tokens = max(len(pairs), 1) * pair_tokens(decoder, source, item.texts)
        return Request(recipe, item, pairs=pairs, tokens=tokens, timeout=self.settings.timeout)

    def info(self) -> dict[str, Any]:
        """What is served and within which limits."""
        served, translator = self._served, self.translator
        decoders = {} if served is None else served.decoders
        return {
            "name": "mbr-serve",
            "version": __version__,
            "state": self.state,
            "default": served and served.default,
            "translations": served.translations if served and translator else None,
            "recipes": {name: str(decoder.signature()) for name, decoder in decoders.items()},
            "translator": dict(translator.origin.settings) if translator else None,
            "languages": translator.languages() if translator else [],
            "on_error": "fallback" if self.fallback else "stop",
            "limits": self.settings.described(),
            "queue": {"requests": self.scheduler.jobs, "tokens": self.scheduler.queue_tokens},
        }

    def _measured(self, translator: Translator) -> tuple[float, float]:
        """Tokens of candidates that are made to warm up, and the seconds that they took."""
        text, tokens, seconds = "A dog runs.", 0, 0.0
        for nbest in (min(self.settings.nbest, FEW), self.settings.nbest):
            began = time.perf_counter()
            translator.candidates(text, nbest)
            tokens, seconds = nbest * text_tokens(text), time.perf_counter() - began
            if seconds > QUICK_TRANSLATION:
                break
        return float(tokens), seconds

    def _decoder(self, recipe: str) -> Decoder:
        if recipe not in self.scheduler.recipes:  # replaced since its name was looked up
            raise UsageError(f"recipe {recipe!r:.60} is not served any more; /info has the names that are")
        return self.scheduler.recipes[recipe]

    def _check_size(self, candidates: int) -> None:
        if candidates > self.settings.max_candidates:
            raise TooLarge(
                f"{candidates} candidates are more than this service takes, {self.settings.max_candidates} "
                "(--max-candidates); send fewer"
            )
