"""The genuine libraries behind our interface: their scores are those of our own readers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import EnvironmentProblem, ModelError, UsageError
from mbr.metrics import LIBRARIES, get_metric
from mbr.utilities import get_utility
from tests.mbr.metrics.test_comet import PAIRS, ROWS, written
from tests.support.random_metrics import write_random_bleurt

__all__ = ["written"]

HAS_COMET = find_spec("comet") is not None
needs_libraries = pytest.mark.skipif(not HAS_COMET, reason="unbabel-comet and bleurt-pytorch need transformers 4")
FOLDERS = {"comet": "comet", "cometkiwi": "kiwi", "xcomet": "xcomet"}


@pytest.fixture(scope="module")
def folders(written: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    bleurt = tmp_path_factory.mktemp("library") / "bleurt"

    def folder(name: str) -> Path:
        if name != "bleurt":
            return written(FOLDERS[name])
        return bleurt if bleurt.exists() else write_random_bleurt(bleurt)

    return folder


def load(name: str, folder: Path, **options: Any) -> Any:
    return get_metric(name, model=folder, device="cpu", **options)


@needs_libraries
@pytest.mark.parametrize("name", LIBRARIES)
def test_library_and_reader_give_the_same_scores_and_flags(name: str, folders: Callable[[str], Path]) -> None:
    jobs = {"cometkiwi": [PAIRS], "xcomet": [ROWS, PAIRS]}.get(name, [ROWS])
    with load(name, folders(name)) as reader, load(name, folders(name), backend="library") as library:
        for rows in jobs:
            np.testing.assert_allclose(library.score(rows), reader.score(rows), atol=1e-4)
            np.testing.assert_array_equal(library.truncated(rows), reader.truncated(rows))
            order = np.random.default_rng(1).permutation(len(rows))
            np.testing.assert_allclose(library.score([rows[i] for i in order]), library.score(rows)[order], atol=1e-5)
        assert (library.name, library.takes, library.family) == (reader.name, reader.takes, reader.family)
        assert library.notes() == reader.notes()
        assert library.settings()["trunc"] in (reader.settings()["trunc"], reader.settings()["trunc"] + 2)
        assert str(library.settings()["backend"]).startswith(library.package)
        assert library.score([]).shape == library.truncated([]).shape == (0,)
        assert library.tokens(jobs[0]) > library.tokens(jobs[0][:2]) > 0
        assert library.memory_bytes() > 0
        if name == "xcomet":
            plain = [row for row in ROWS if "<pad>" not in row[1]]
            for theirs, ours in zip(library.spans(plain), reader.spans(plain), strict=True):
                assert [(s.start, s.end, s.severity, s.text) for s in theirs] == [
                    (s.start, s.end, s.severity, s.text) for s in ours
                ]
    with pytest.raises(UsageError, match="closed"):
        library.score(jobs[0])


@needs_libraries
@pytest.mark.parametrize("name", ["comet", "bleurt"])
def test_a_utility_by_the_library_decides_by_the_same_numbers(name: str, folders: Callable[[str], Path]) -> None:
    texts = ["Ein Hund läuft.", "Der Hund rennt.", "Ein Kater schläft."]
    triples = [("A dog runs.", h, r) for h in texts for r in texts]
    made = {}
    for backend in ("torch", "library"):
        with get_utility(name, model=folders(name), device="cpu", backend=backend) as utility:
            if name == "comet":
                utility.prepare([("A dog runs.", texts)])
                made[backend] = utility.matrix("A dog runs.", texts, texts).ravel()
            else:
                made[backend] = utility.score_pairs(triples)
            assert not utility.truncates("A dog runs.", texts)
    np.testing.assert_allclose(made["library"], made["torch"], atol=1e-4)


@needs_libraries
def test_what_a_library_cannot_do_is_refused(folders: Callable[[str], Path]) -> None:
    for options in ({"dtype": "bf16"}, {"batch_tokens": 512}):
        with pytest.raises(UsageError, match="leave out dtype and batch_tokens"):
            load("comet", folders("comet"), backend="library", **options)
    with pytest.raises(ModelError, match="is a unified_metric, which comet does not take"):
        load("comet", folders("cometkiwi"), backend="library")
    with pytest.raises(ModelError, match="of type None, not bleurt|has no config.json"):
        load("bleurt", folders("comet"), backend="library")
    with (
        get_utility("comet", model=folders("comet"), device="cpu", backend="library") as utility,
        pytest.raises(UsageError, match="leave out the strategy aggregate"),
    ):
        utility.aggregate("A dog.", ["a", "b"], np.ones(2), np.ones(2))


def test_a_backend_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="back-end 'ct2' is unknown to comet; expected torch or library"):
        get_metric("comet", model=tmp_path, backend="ct2")
    with pytest.raises(UsageError, match="metricx has no back-end library; those with one: comet, cometkiwi, xcomet"):
        get_metric("metricx", model=tmp_path, backend="library")
    with pytest.raises(UsageError, match="'metricx' has no option 'backend'"):
        get_utility("metricx", model=tmp_path, backend="library")


@pytest.mark.skipif(HAS_COMET, reason="the libraries are installed here")
@pytest.mark.parametrize("name", LIBRARIES)
def test_without_the_library_its_extra_is_named(name: str, tmp_path: Path) -> None:
    extra = "bleurt" if name == "bleurt" else "comet"
    with pytest.raises(EnvironmentProblem, match=rf"cannot be imported .*pip install '\.\[{extra}\]'"):
        get_metric(name, model=tmp_path, backend="library")
