"""What every generator of candidates has in common: the settings, the protocol, and the choice of a back-end.

A generator turns a stream of source sentences into a stream of candidate lists, in order. What it makes of a source
follows from the settings, the seed, and the sources with their places in the input; never from how many threads run
or where an interrupted run went on.

    with open_generator(Settings(nbest=100)) as generator:
        for item in generator.generate(["A dog runs."]):
            print(item.texts)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from candidates.common.closing import Closing
from candidates.common.errors import ModelError, UsageError
from candidates.formats import Record
from candidates.lists import Candidate, CandidateList

Method = Literal["beam", "sample", "epsilon"]
METHODS: tuple[Method, ...] = get_args(Method)
BACKENDS = ("ct2", "hf", "openai")
DEFAULT_MODEL = "en-de"
DEFAULT_EPSILON = 0.02
BUNDLED = Path(__file__).parent / "bundled"

# Which methods an option belongs to; the others refuse it rather than ignore it.
_BELONGS_TO: dict[str, tuple[Method, ...]] = {
    "beam_size": ("beam",),
    "patience": ("beam",),
    "length_penalty": ("beam",),
    "temperature": ("sample", "epsilon"),
    "top_k": ("sample",),
    "top_p": ("sample",),
    "epsilon": ("epsilon",),
}
# Name, what is said of it, and whether a value will do.
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
    """How candidates are searched or drawn. None is the method's own default."""

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
                raise UsageError(f"{_option(name)} {value} is out of range; expected a number {expected}")
        for name, methods in _BELONGS_TO.items():
            if getattr(self, name) is not None and self.method not in methods:
                raise UsageError(f"{_option(name)} goes with --method {' or '.join(methods)}, not with {self.method}")
        if self.method == "beam" and self.nbest > self.beams * (self.patience or 1):
            raise UsageError(
                f"--nbest {self.nbest} candidates do not come out of --beam-size {self.beams} with patience "
                f"{self.patience or 1:g}; raise the beam size, or sample"
            )

    @property
    def beams(self) -> int:
        """The beam's size: as asked for, or as large as the list, but not below the usual 5."""
        return self.beam_size or max(self.nbest, 5)

    def described(self) -> dict[str, Any]:
        """Every setting that decides what comes out, defaults filled in, for signatures and journals."""
        known: dict[str, Any] = {"nbest": self.nbest, "method": self.method, "max-length": self.max_length}
        if self.method == "beam":
            length_penalty = 1.0 if self.length_penalty is None else self.length_penalty
            return known | {"beam": self.beams, "patience": self.patience or 1.0, "length-penalty": length_penalty}
        known |= {"temperature": self.temperature or 1.0, "seed": self.seed}
        if self.method == "epsilon":
            return known | {"epsilon": self.epsilon or DEFAULT_EPSILON}
        return known | {"top-k": self.top_k or "all", "top-p": self.top_p or 1.0}


class Generator(Closing):
    """Base of the back-ends: sources in, candidate lists out, in order. Use it with `with`."""

    name: str
    settings: Settings

    def __init__(self) -> None:
        self.notices: deque[str] = deque()  # what a person should hear now; whoever shows them takes them out
        self.cut_off = 0  # candidates that reached the length limit before their end
        self._counting = threading.Lock()

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        """One list per source; the lists of the first `skip` sources are left out.

        The skipped sources are read all the same: what is drawn for a source may depend on its place in the input.
        """
        raise NotImplementedError

    def described(self) -> dict[str, Any]:
        """Everything that may change a candidate, for signatures and journals."""
        return {"backend": self.name, **self.settings.described()}

    def fitted(self, tokens: list[str], end: str, positions: int | None, id: int) -> list[str]:
        """The source's tokens, cut with a notice where the model has no positions for them all."""
        if positions is None or len(tokens) < positions:
            return tokens
        self.notices.append(
            f"segment {id}: {len(tokens)} tokens, but the model reads fewer than {positions}; its end is left "
            "untranslated (--split-sentences translates sentence by sentence)"
        )
        last = tokens[-1:] if tokens[-1] == end else []
        return tokens[: positions - 2 - len(last)] + last

    def count_cut_off(self, candidates: int) -> None:
        with self._counting:
            self.cut_off += candidates

    def close(self) -> None:
        """Let go of models and threads."""


def open_generator(
    settings: Settings | None = None, *, model: str | None = None, backend: str | None = None, **options: Any
) -> Generator:
    """The generator for a model: a folder, a hub name, a bundled model's name (`en-de`), or a server's address.

    The back-end is `ct2` for a CTranslate2 folder and for the bundled models, `openai` for an address, else `hf`.
    `options` go to the back-end; one that it does not know is an error.
    """
    settings = settings or Settings()
    model = model or DEFAULT_MODEL
    backend = backend or guess_backend(model)
    options = {name: value for name, value in options.items() if value is not None}
    kind = _backend(backend)
    unknown = sorted(options.keys() - set(kind.__init__.__kwdefaults__ or ()))
    if unknown:
        raise UsageError(f"{_option(unknown[0])} does not go with the back-end {backend}")
    made: Generator = kind(model, settings, **options)
    return made


def guess_backend(model: str) -> str:
    """The back-end that a model's name or folder calls for."""
    if model.startswith(("http://", "https://")):
        return "openai"
    folder = model_folder(model)
    return "ct2" if folder is not None and (folder / "model.bin").is_file() else "hf"


def model_folder(model: str) -> Path | None:
    """The local folder a model's name stands for, or None where it can only be a hub name."""
    if model in bundled_models():
        return BUNDLED / model  # a folder of this name here is ./name
    if Path(model).is_dir():
        return Path(model)
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelError(f"{model}: no such folder; expected a model folder, a hub name or one of {_bundled_names()}")
    return None


def bundled_models() -> list[str]:
    """The translation models that ship with the package."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/model.bin"))


def blank(source: str, id: int, nbest: int) -> CandidateList:
    """A blank line has one translation, the empty one, as often as candidates were asked for."""
    return CandidateList.of(source, [Candidate("", 0.0, nbest)], id=id)


def _backend(name: str) -> Any:
    if name == "ct2":
        from candidates.backends.ct2 import Ct2Generator

        return Ct2Generator
    if name == "hf":
        from candidates.backends.hf import HfGenerator

        return HfGenerator
    if name == "openai":
        from candidates.backends.openai import ServerGenerator

        return ServerGenerator
    raise UsageError(f"back-end {name!r} is unknown; expected one of {', '.join(BACKENDS)}")


def _bundled_names() -> str:
    return ", ".join(bundled_models())


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
