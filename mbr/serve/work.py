"""The work of one job: how it starts, what it costs, and how a failure becomes an error for its caller."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError, ModelError, ResourceError
from mbr.decide import Decision
from mbr.pipeline import Decoder, ListConversation
from mbr.pool import OpenConversation
from mbr.serve.jobs import DeadlinePassed, Job
from mbr.strategies import Ask, Conversation, Outcome
from mbr.utilities import PairUtility, QualityUtility, Utility


def started_in_portions(job: Job, portion: int) -> Generator[int, None, Decision | OpenConversation]:
    """The conversation of a job, or the decision where nothing needs scoring; yields the passes of each portion."""
    assert job.candidates is not None
    if job.request.pairs is not None:
        return OpenConversation(job.candidates, _ask_once(job.request.pairs))
    return (yield from decoder_of(job).start_in_portions(job.candidates, portion))


def fallback_of(job: Job, error: MbrError) -> Decision:
    """The first candidate that the guards keep, and with a first stage, that it keeps."""
    decoder = replace(decoder_of(job), on_error="fallback")
    if isinstance(job.conversation, ListConversation):
        return decoder.failed(job.conversation.compared, error)
    assert job.candidates is not None
    return decoder.failed(job.candidates, error)


def decoder_of(job: Job) -> Decoder:
    """The decoder, which keeps the matrix where that was requested."""
    return replace(job.decoder, keep_matrix=True) if job.request.keep_matrix else job.decoder


def cost(utility: Utility, conversation: OpenConversation, pairs: int) -> int:
    """The model's tokens for the next pairs of a conversation; 0 where there is no model that counts them."""
    if isinstance(utility, PairUtility):
        return int(utility.cost(conversation.triples(pairs)).get("tokens", 0))
    if isinstance(utility, QualityUtility):
        rows = [(source, text) for source, text, _ in conversation.triples(pairs)]
        return int(utility.cost(rows).get("tokens", 0))
    return 0


def as_error(exc: Exception) -> MbrError:
    """An error for the caller: ours as it is, a bug as a failure of the model."""
    if isinstance(exc, MbrError):
        return exc
    if isinstance(exc, MemoryError):
        return ResourceError("out of memory; send fewer or shorter candidates, or try again later")
    error = ModelError(
        f"scoring failed: {type(exc).__name__} (the log of the service has the place); send the request again, or use "
        "another recipe"
    )
    error.__cause__ = exc
    return error


def described(exc: BaseException) -> str:
    """An exception for the log: its type and where it was raised. Its message may hold texts, so it is left out."""
    frames = traceback.extract_tb(exc.__traceback__)[-3:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"{type(exc).__name__} at {places}"


def late(job: Job) -> DeadlinePassed:
    """Why there is no decision at the deadline."""
    if job.candidates is None:
        state = "its candidates were still being made"
    elif job.conversation is None:
        state = "it was waiting" if job.starting is None else "its terms were being computed"
    elif job.request.on_deadline == "best" and not job.decoder.strategy.anytime:
        state = f"strategy {job.decoder.strategy.name!r} cannot decide before its end; use race, halving or prune"
    else:
        state = f"{job.conversation.passes} pairs were scored"
    return DeadlinePassed(f"there was no decision in time: {state}; allow more time or send fewer candidates")


def _ask_once(pairs: NDArray[np.intp]) -> Conversation:
    """A conversation that asks for some pairs and is content; the scores are its one row of values."""
    scores = yield Ask(pairs)
    return Outcome(scores[None, :], np.ones((1, len(scores)), np.bool_))
