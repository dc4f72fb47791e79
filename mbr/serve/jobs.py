"""What goes into the scheduler and what comes out: requests, tickets, answers, and the reasons to refuse."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.pipeline import Decoder
from mbr.pool import OpenConversation

OnDeadline = Literal["error", "best"]


class Refused(MbrError):
    """The service does not take this request now; `retry_after` seconds later it may."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(Refused):
    """Too much work is waiting already."""


class Unavailable(Refused):
    """The service is starting or ending."""


class TooLarge(MbrError):
    """The request is larger than the service ever takes."""


class DeadlinePassed(MbrError):
    """There was no decision in time."""


class Gone(MbrError):
    """The caller has cancelled the request."""


@dataclass(frozen=True)
class Request:
    """One list to decide, or pairs of its texts to score.

    Args:
        recipe: name of the decoder.
        candidates: the list; or `prepare`, which makes it in a thread of its own.
        pairs: (hypothesis, pseudo-reference) places [pairs, 2]: score these instead of deciding.
        keep_matrix: whether the decision keeps its utility matrix.
        tokens: an estimate of the work, for admission (`mbr.serve.tokens`).
        timeout: seconds until there must be an answer.
        on_deadline: what happens then: an error, or the best candidate so far where there is one.
        key: equal for requests that have the same answer; None is never joined.
    """

    recipe: str
    candidates: CandidateList | None = None
    prepare: Callable[[], CandidateList] | None = None
    pairs: NDArray[np.intp] | None = None
    keep_matrix: bool = False
    tokens: int = 0
    timeout: float | None = None
    on_deadline: OnDeadline = "error"
    key: Hashable = None


@dataclass(frozen=True)
class Answer:
    """A decision, or scores [pairs], and what they took. `tokens`: of the model, for the pairs that were scored."""

    decision: Decision | None
    scores: NDArray[np.float32] | None
    signature: str
    partial: bool = False
    tokens: int = 0
    queue_seconds: float = 0.0
    inference_seconds: float = 0.0


@dataclass(eq=False)
class Ticket:
    """One caller's place: the future answer, and a way to leave. Several callers may wait for one job."""

    future: Future[Answer]
    deadline: float | None
    notify: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """The caller has gone: no answer is wanted."""
        self.cancelled = True
        self.notify()

    def succeed(self, answer: Answer) -> None:
        with suppress(InvalidStateError):  # cancelled by its caller meanwhile
            self.future.set_result(answer)

    def fail(self, error: MbrError) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(eq=False)
class Generation:
    """Decoders by name that were loaded together; `close` is called once no job needs them and others replaced them."""

    decoders: dict[str, Decoder]
    close: Callable[[], None]
    # By recipe: estimated tokens, and the seconds that they took before the first request.
    speeds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    jobs: int = 0
    signatures: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.signatures = {name: str(decoder.signature()) for name, decoder in self.decoders.items()}


@dataclass(eq=False)
class Job:
    """A request under way. Only the scheduler's thread touches what follows `tickets`."""

    request: Request
    generation: Generation
    decoder: Decoder
    submitted: float
    key: Hashable
    tickets: list[Ticket] = field(default_factory=list)
    candidates: CandidateList | None = None
    starting: Generator[int, None, Decision | OpenConversation] | None = None  # its first stage and terms
    starting_passes: int = 0
    conversation: OpenConversation | None = None
    pair_tokens: int = 1
    single_tokens: int = 1  # of a pass of a term
    began: float | None = None
    tokens: int = 0
    credited: int = 0  # its estimated tokens that count as done
    turn: int = 0
    stopped: bool = False
    ended: bool = False
