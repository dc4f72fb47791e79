"""Single-candidate models and sentinels: the fast path against the network by hand, and pear-score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from pear import Single
from pear.engine import Engine
from pear.runtime.probes import PROBES
from tests.conftest import Run
from tests.support.random_pear import CORPUS, random_checkpoint
from tests.support.tiny import SHAPE, by_hand, tiny_model

LONG = " ".join(CORPUS)
PAIRS = [(s, a) for s, a, _ in PROBES] + [(LONG, "Ein Hund."), ("A dog.", LONG), (LONG, LONG + LONG), ("", "")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("singles")
    return {kind: tiny_model(root, kind) for kind in ("single", "sentinel-cand", "sentinel-src", "sentinel-ref")}


@pytest.mark.parametrize("model_type", ["xlm-roberta", "bert"])
def test_scores_are_those_of_the_network_by_hand(tmp_path: Path, model_type: str) -> None:
    folder = tiny_model(tmp_path, "single", model_type)
    with Single.load(folder, device="cpu", batch_tokens=100) as single:
        scores = single.score(PAIRS)
    assert scores.dtype == np.float32
    assert np.std(scores) > 0.05
    np.testing.assert_allclose(scores, by_hand(folder, PAIRS), atol=1e-5)


@pytest.mark.parametrize(("kind", "read"), [("sentinel-cand", 1), ("sentinel-src", 0)])
def test_a_sentinel_is_shown_one_text_beside_an_empty_source(folders: dict[str, Path], kind: str, read: int) -> None:
    with Single.load(folders[kind], device="cpu") as sentinel:
        expected = by_hand(folders[kind], [("", pair[read]) for pair in PAIRS])
        np.testing.assert_allclose(sentinel.score(PAIRS), expected, atol=1e-5)
        np.testing.assert_allclose(sentinel.score_texts([pair[read] for pair in PAIRS]), expected, atol=1e-5)


def test_each_kind_asks_for_what_it_reads(folders: dict[str, Path], ours: Path) -> None:
    with Single.load(folders["sentinel-ref"], device="cpu") as sentinel:
        expected = by_hand(folders["sentinel-ref"], [("", "Ein Hund.")])
        np.testing.assert_allclose(sentinel.score_texts(["Ein Hund."]), expected, atol=1e-5)
        with pytest.raises(UsageError, match="give them to score_texts"):
            sentinel.score(PAIRS)
    with Single.load(folders["single"], device="cpu") as single, pytest.raises(UsageError, match="give them to score"):
        single.score_texts(["Ein Hund."])
    with pytest.raises(ModelError, match="a model of kind pear; expected one of kind single or sentinel-cand"):
        Single.load(ours)


def test_rows_of_different_sizes_are_refused(tmp_path: Path) -> None:
    checkpoint = random_checkpoint(tmp_path / "x", **SHAPE)
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    with pytest.raises(UsageError, match=r"rows of \[2, 3\] texts"):
        engine.score([PROBES[0], PAIRS[0]])
    assert engine.tokens([]) == 0


def test_truncation_counts_the_texts_that_stand_together(folders: dict[str, Path]) -> None:
    with Single.load(folders["single"], device="cpu") as single:
        engine = single.engine
        assert (engine.layout.budget(2), engine.layout.budget(3)) == (44, 42)
        text = "Hund" + " a b" * 7
        (number,) = engine.store.number([text])
        assert 14 < engine.store.lengths[number] <= 22
        assert engine.truncates(text, [text, text], at_once=2)
        assert not engine.truncates(text, [text, text], at_once=1)
        assert engine.truncates(text * 3, [text], at_once=1)


@pytest.mark.parametrize(
    ("kind", "header", "rows", "column"),
    [
        ("single", "src\tmt", [("A dog.", "Ein Hund."), ("A cat.", "")], "single_score"),
        ("sentinel-cand", "mt", [("Ein Hund.",), ("Eine Katze.",)], "sentinel_score"),
        ("sentinel-src", "src", [("A dog.",), ("A cat.",)], "sentinel_score"),
        ("sentinel-ref", "ref", [("Ein Hund.",), ("Eine Katze.",)], "sentinel_score"),
    ],
)
def test_pear_score_gives_one_score_a_row(
    warm: Run, folders: dict[str, Path], kind: str, header: str, rows: list[tuple[str, ...]], column: str
) -> None:
    table = "".join(line + "\n" for line in [header, *("\t".join(row) for row in rows)])
    result = warm("pear-score", "--model", folders[kind], "--device", "cpu", stdin=table)
    assert result.returncode == 0, result.stderr
    shown = [row if len(row) == 2 else ("", *row) for row in rows]
    first, *lines = result.stdout.splitlines()
    assert first == f"{header}\t{column}"
    assert [tuple(line.split("\t")[:-1]) for line in lines] == rows
    scores = [float(line.split("\t")[-1]) for line in lines]
    np.testing.assert_allclose(scores, by_hand(folders[kind], shown), atol=1e-5)
    assert f"{header.split()[-1]}  (2 segments)" in result.stderr


def test_pear_score_takes_several_systems(warm: Run, folders: dict[str, Path]) -> None:
    table = "src\tA\tB\nA dog.\tEin Hund.\tHund.\n"
    result = warm("pear-score", "--model", folders["single"], "--systems", "A", "B", stdin=table)
    assert result.stdout.splitlines()[0] == "src\tA\tB\tsingle_A\tsingle_B"


@pytest.mark.parametrize(
    ("kind", "header", "words", "message"),
    [
        ("single", "src\tmt_0\tmt_1", (), "kind single, which wants src, mt"),
        ("single", "src\tmt\tref", ("--both",), "kind single, which wants src, mt in one order"),
        ("single", "src\tmt\tref", ("--systems", "mt", "--anchor", "ref"), "kind single, which wants src, mt"),
        ("sentinel-src", "s\tb\tc", (), "kind sentinel-src, which wants src"),
        ("sentinel-ref", "src\tA\tref", ("--systems", "A"), "kind sentinel-ref, which wants ref"),
    ],
)
def test_pear_score_names_the_kind_and_its_columns(
    warm: Run, folders: dict[str, Path], kind: str, header: str, words: tuple[str, ...], message: str
) -> None:
    result = warm("pear-score", "--model", folders[kind], *words, stdin=f"{header}\na\tb\tc\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
