"""COMET, CometKiwi, XCOMET and BLEURT run by their own libraries (`backend="library"`).

unbabel-comet and bleurt-pytorch behind the interface of our own readers, with the same checks, for users who want the
genuine code. Our readers are the default: they encode each distinct text once, run in every environment, and give the
same scores (`tests/mbr/metrics/test_library.py`). A checkpoint that only an unsafe load could read is refused here too.

    with get_metric("comet", model="comet-folder", backend="library") as comet:
        comet.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import EnvironmentProblem, MbrError, ModelError, UsageError, install_extra
from mbr.metrics.base import Metric, Row
from mbr.metrics.bleurt import Bleurt
from mbr.metrics.comet import Comet
from mbr.metrics.cometkiwi import CometKiwi
from mbr.metrics.xcomet import Span, XComet
from pear.runtime.options import ModelOptions

BATCH = 16  # rows; the default of unbabel-comet
NAMES = ("src", "mt", "ref")


class LibraryMetric(Metric):
    """What both libraries share: one device, float32, batches of rows of similar length."""

    package: ClassVar[str]
    module: ClassVar[str]
    extra: ClassVar[str]
    default: ClassVar[str]

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from pear.runtime.devices import limit_threads, resolve_devices

        if options.get("dtype", "float32") != "float32" or options.get("batch_tokens") is not None:
            raise UsageError(
                f"{self.package} runs in float32 and in batches of its own; leave out dtype and batch_tokens, or the "
                "back-end library"
            )
        limit_threads(options.get("threads", 0))
        self._device, *more = resolve_devices(options.get("device", "auto"))
        if more:
            raise UsageError(f"{self.package} runs on one device here; name one")
        library = self._imported()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._load(library, options)
        except (MbrError, MemoryError):
            raise
        except Exception as exc:  # the libraries' own errors are of many types
            model = options.get("model") or self.default
            raise ModelError(f"{self.package} cannot load {model}: {type(exc).__name__}: {exc}") from exc
        self._network.eval().to(self._device)

    @abstractmethod
    def _load(self, library: Any, options: ModelOptions) -> None:
        """Set `_network` (on the CPU), `_tokenizer`, `_longest`, `_files` and `_name`."""

    @abstractmethod
    def _batch(self, rows: Sequence[Row]) -> list[float]:
        """Scores of a few rows."""

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        self.texts_per_row(rows)
        distinct = sorted(dict.fromkeys(rows), key=lambda row: -sum(map(len, row)))
        scores: dict[Row, float] = {}
        for left in range(0, len(distinct), BATCH):
            batch = distinct[left : left + BATCH]
            scores |= dict(zip(batch, self._run(batch), strict=True))
        return np.array([scores[row] for row in rows], np.float32)

    def settings(self) -> dict[str, object]:
        backend = f"{self.package}-{version(self.package)}"
        return {"model": self._name, "dtype": "float32", "trunc": self._longest, "backend": backend}

    def notes(self) -> list[str]:
        note = self._files.note()
        return [note] if note else []

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        if not rows:
            return np.zeros(0, np.bool_)
        return self._too_long(self._lengths(rows))

    @abstractmethod
    def _too_long(self, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows of texts with these numbers of tokens [rows, texts] are cut."""

    def tokens(self, rows: Sequence[Row]) -> int:
        return int(self._lengths(rows).sum()) + 2 * len(rows) if rows else 0

    def memory_bytes(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self._open().parameters())

    @property
    def on_gpu(self) -> bool:
        return not self._device.startswith("cpu")

    def close(self) -> None:
        self._network: Any = None

    def _open(self) -> Any:
        if self._network is None:
            raise UsageError("this model is closed; load it again to score")
        return self._network

    def _run(self, rows: Sequence[Row]) -> list[float]:
        import torch

        self._open()
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._batch(rows)

    def _lengths(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        numbers = self._store.number(text for row in rows for text in row)
        return self._store.lengths[numbers].reshape(len(rows), -1)

    def _hold(self, network: Any, tokenizer: Any, longest: int, files: Any, options: ModelOptions) -> None:
        from pear.runtime.token_store import TokenStore

        self._network, self._tokenizer, self._longest, self._files = network, tokenizer, longest, files
        self._store = TokenStore(tokenizer)
        settings = f"{type(network).__name__} {getattr(network, 'hparams', '')}"
        self._name = files.full_name(network, tokenizer, settings, options)

    @classmethod
    def _imported(cls) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return import_module(cls.module)
        except Exception as exc:  # it may also be broken by the versions of other packages
            raise EnvironmentProblem(
                f"the back-end library of {cls.name} is {cls.package}, which cannot be imported ({exc}): "
                f"{install_extra(cls.extra)}, with -c constraints/comet.txt; without a back-end ours runs"
            ) from exc


class LibraryComet(LibraryMetric):
    """A checkpoint in unbabel-comet; subclasses say of which class."""

    package, module, extra = "unbabel-comet", "comet.models", "comet"
    kind: ClassVar[str]
    joint: ClassVar[bool]  # whether texts are read together

    def _load(self, library: Any, options: ModelOptions) -> None:
        from mbr.metrics.released import find_model
        from pear.runtime.encoders import locate_encoder
        from pear.runtime.hub import root_of
        from pear.runtime.lightning import checkpoint_file, read_hparams, read_released

        files = find_model(options.get("model") or self.default, self.name, options)
        file = checkpoint_file(files.path)
        if file is None:
            raise ModelError(
                f"{files.path} is not a COMET checkpoint: expected a folder with checkpoints/model.ckpt and "
                "hparams.yaml, or a .ckpt file"
            )
        _, hparams = read_released(file)  # refuses what is not safe to load, before the library does
        beside = read_hparams(file)
        kind = str(beside.get("class_identifier") or hparams.get("class_identifier"))
        if kind != self.kind:
            raise ModelError(f"{file} is a {kind}, which {self.name} does not take (expected {self.kind})")
        hub = {"cache_dir": options.get("cache_dir"), "local_files_only": options.get("offline", False)}
        recorded = str(hparams.get("pretrained_model", "xlm-roberta-large"))
        encoder = locate_encoder(options.get("encoder"), recorded, root_of(file), None, hub)
        patched = beside.get("layer_transformation") == "sparsemax_patch"
        network = library.str2model[kind].load_from_checkpoint(
            str(file),
            pretrained_model=str(encoder),
            load_pretrained_weights=False,
            local_files_only=True,
            strict=False,
            map_location="cpu",
            **({"layer_transformation": "softmax"} if patched else {}),
        )
        self._hold(network, network.encoder.tokenizer, int(network.encoder.max_positions), files, options)

    def _predicted(self, rows: Sequence[Row]) -> Any:
        network = self._open()
        samples = [dict(zip(NAMES, row, strict=False)) for row in rows]
        return network.predict_step(_moved(network.prepare_sample(samples, stage="predict"), self._device))

    def _batch(self, rows: Sequence[Row]) -> list[float]:
        return [float(score) for score in self._predicted(rows).scores]

    def _too_long(self, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        long = np.asarray((lengths > self._longest - 4).any(axis=1))
        if self.joint:
            between = int(self._open().encoder.size_separator)
            long |= lengths.sum(axis=1) + 2 + (lengths.shape[1] - 1) * between > self._longest
        return long


class CometByLibrary(LibraryComet):
    name, default, summary, family = Comet.name, Comet.default, Comet.summary, Comet.family
    kind, joint = "regression_metric", False


class CometKiwiByLibrary(LibraryComet):
    name, default, summary, family = CometKiwi.name, CometKiwi.default, CometKiwi.summary, CometKiwi.family
    takes = CometKiwi.takes
    kind, joint = "unified_metric", True


class XCometByLibrary(LibraryComet):
    name, default, summary, family = XComet.name, XComet.default, XComet.summary, XComet.family
    takes = XComet.takes
    kind, joint = "xcomet_metric", True

    def spans(self, rows: Sequence[Row], *, progress: bool = False) -> list[list[Span]]:
        """The errors of each row's hypothesis."""
        return self.score_with_spans(rows, progress=progress)[1]

    def score_with_spans(
        self, rows: Sequence[Row], *, progress: bool = False
    ) -> tuple[NDArray[np.float32], list[list[Span]]]:
        """Scores [rows], and the errors of each row's hypothesis."""
        import torch

        scores: list[float] = []
        spans: list[list[Span]] = []
        for left in range(0, len(rows), BATCH):
            with torch.inference_mode():
                predicted = self._predicted(rows[left : left + BATCH])
            scores += [float(score) for score in predicted.scores]
            spans += [[Span(**span) for span in errors] for errors in predicted.metadata.error_spans]
        return np.array(scores, np.float32), spans


class BleurtByLibrary(LibraryMetric):
    """A checkpoint of bleurt-pytorch in bleurt-pytorch."""

    name, default, summary, family = Bleurt.name, Bleurt.default, Bleurt.summary, Bleurt.family
    package, module, extra = "bleurt-pytorch", "bleurt_pytorch", "bleurt"
    reads_source = False

    def _load(self, library: Any, options: ModelOptions) -> None:
        from mbr.metrics.released import find_model
        from pear.runtime.weights import read_config, tokenizer_folder

        files = find_model(options.get("model") or self.default, self.name, options)
        kind = read_config(files.path).get("model_type")
        if kind != "bleurt":
            raise ModelError(f"{files.path} is a model of type {kind}, not bleurt; expected one of bleurt-pytorch")
        named = options.get("encoder")
        place = tokenizer_folder(named, files.path, options) if named else files.path
        tokenizer = library.BleurtTokenizer.from_pretrained(place)
        network = library.BleurtForSequenceClassification.from_pretrained(files.path)
        longest = min(int(network.config.max_position_embeddings), 512)
        self._hold(network, tokenizer, longest, files, options)

    def _batch(self, rows: Sequence[Row]) -> list[float]:
        references, hypotheses = [row[2] for row in rows], [row[1] for row in rows]
        settings = {"padding": "longest", "truncation": True, "max_length": self._longest, "return_tensors": "pt"}
        inputs = self._tokenizer(references, hypotheses, **settings)
        scores: list[float] = self._open()(**_moved(dict(inputs), self._device)).logits.flatten().tolist()
        return scores

    def _too_long(self, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(lengths[:, 1:].sum(axis=1) + 3 > self._longest)


def _moved(inputs: Any, device: str) -> Any:
    """The same structure with its tensors on a device."""
    if isinstance(inputs, dict):
        return {key: _moved(value, device) for key, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_moved(value, device) for value in inputs)
    return inputs.to(device) if hasattr(inputs, "to") else inputs
