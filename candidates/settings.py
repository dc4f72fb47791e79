"""How candidates are searched or drawn: the method and its numbers, checked before a model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from candidates.common.errors import UsageError

Method = Literal["beam", "sample", "epsilon"]
METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT_EPSILON = 0.02

# The methods that an option belongs to; the others refuse it rather than ignore it.
_BELONGS_TO: dict[str, tuple[Method, ...]] = {
    "beam_size": ("beam",),
    "patience": ("beam",),
    "length_penalty": ("beam",),
    "temperature": ("sample", "epsilon"),
    "top_k": ("sample",),
    "top_p": ("sample",),
    "epsilon": ("epsilon",),
}
# Name, the range in words, and whether a value is in it.
_RANGES: tuple[tuple[str, str, Any], ...] = (
    ("nbest", "from 1 to 10000", lambda value: 1 <= value <= 10_000),
    ("beam_size", "from 1 to 10000", lambda value: 1 <= value <= 10_000),
    ("patience", "from 1 to 10", lambda value: 1 <= value <= 10),
    ("length_penalty", "from 0 to 10", lambda value: 0 <= value <= 10),
    ("temperature", "above 0, up to 100", lambda value: 0 < value <= 100),
    ("top_k", "at least 1", lambda value: value >= 1),
    ("top_p", "above 0, up to 1", lambda value: 0 < value <= 1),
    ("epsilon", "above 0, below 1", lambda value: 0 < value < 1),
    ("max_length", "at least 1", lambda value: value >= 1),
    ("seed", "from 0 to 2**32 - 1", lambda value: 0 <= value < 2**32),
)


@dataclass(frozen=True)
class Settings:
    """How candidates are searched or drawn. None stands for the method's default."""

    nbest: int = 100
    method: Method = "beam"
    beam_size: int | None = None
    patience: float | None = None
    length_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    epsilon: float | None = None
    max_length: int = 256
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"method {self.method!r} is unknown; expected one of {', '.join(METHODS)}")
        for name, expected, fits in _RANGES:
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise UsageError(f"{flag(name)} {value} is out of range; expected a number {expected}")
        for name, methods in _BELONGS_TO.items():
            if getattr(self, name) is not None and self.method not in methods:
                raise UsageError(f"{flag(name)} goes with --method {' or '.join(methods)}, not with {self.method}")
        if self.method == "beam" and self.nbest > self.beams * (self.patience or 1):
            raise UsageError(
                f"--nbest {self.nbest} is more than --beam-size {self.beams} with patience {self.patience or 1:g} "
                "returns; raise the beam size, or use --method sample"
            )

    @property
    def beams(self) -> int:
        """The beam size: `beam_size`, or as large as the list, but at least the usual 5."""
        return self.beam_size or max(self.nbest, 5)

    def described(self) -> dict[str, Any]:
        """Every setting that may change a candidate, defaults filled in, for signatures and journals."""
        settings: dict[str, Any] = {"nbest": self.nbest, "method": self.method, "max-length": self.max_length}
        if self.method == "beam":
            length_penalty = 1.0 if self.length_penalty is None else self.length_penalty
            return settings | {"beam": self.beams, "patience": self.patience or 1.0, "length-penalty": length_penalty}
        settings |= {"temperature": self.temperature or 1.0, "seed": self.seed}
        if self.method == "epsilon":
            return settings | {"epsilon": self.epsilon or DEFAULT_EPSILON}
        return settings | {"top-k": self.top_k or "all", "top-p": self.top_p or 1.0}


def flag(name: str) -> str:
    """A setting's name as it is spelled on the command line."""
    return f"--{name.replace('_', '-')}"
