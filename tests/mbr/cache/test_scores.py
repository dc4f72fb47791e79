"""What a utility said is computed once, and costs everybody the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbr import Decision, Recipe, open_decoder
from mbr.cache import scores as module
from mbr.cache.scores import Ledger, ScoreStore
from mbr.utilities import Utility
from tests.mbr.compare.made import Counting, Longer, Overlap, lists

pytestmark = pytest.mark.one_world

ROWS = [("s", "a", "b"), ("s", "b", "a"), ("t", "a", "b"), ("s", "a", "b")]


class Model:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, ...]]] = []

    def __call__(self, rows: Sequence[tuple[str, ...]]) -> Any:
        self.asked.append(list(rows))
        return np.array([len("".join(row)) + 10 * ord(row[1]) for row in rows], np.float32)


def ledger(store: ScoreStore, utility: Utility | None = None) -> Ledger:
    return Ledger(store, utility or Counting())


def test_each_row_is_computed_once_in_all_runs(tmp_path: Path) -> None:
    model, path = Model(), tmp_path / "scores.sqlite"
    with ScoreStore(path) as store, ledger(store) as one:
        first = one.score(ROWS, model)
        np.testing.assert_array_equal(one.score(ROWS, model), first)
    with ScoreStore(path) as store, ledger(store) as other:
        np.testing.assert_array_equal(other.score([*ROWS, ("s", "c", "c")], model)[:4], first)
    assert model.asked == [ROWS[:3], [("s", "c", "c")]]
    assert first[0] == first[3] != first[1]


def test_other_models_and_other_sources_have_scores_of_their_own(tmp_path: Path) -> None:
    model = Model()
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        for utility in (Counting(), Counting(model="other"), Overlap()):
            with ledger(store, utility) as one:
                one.score(ROWS[:1], model)
    assert len(model.asked) == 3


def test_who_asks_second_is_told_the_same_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "process_time", lambda: now[0])

    def model(rows: Sequence[tuple[str, ...]]) -> Any:
        now[0] += len(rows)  # a second each
        return np.ones(len(rows), np.float32)

    with ScoreStore(tmp_path / "scores.sqlite") as store:
        with ledger(store) as first:
            first.score(ROWS[:3], model)
        with ledger(store) as second:
            second.score(ROWS[:3], model)
        assert (first.spent.seconds, first.spent.aside) == (pytest.approx(3.0), 3.0)
        assert (second.spent.seconds, second.spent.aside) == (pytest.approx(3.0), 0.0)
        with ledger(store) as third:
            third.score(ROWS[1:2], model)
        assert third.spent.seconds == pytest.approx(1.0)


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    """Of the same source, with texts in another order, in one process or two."""
    model, path = Model(), tmp_path / "scores.sqlite"
    with ScoreStore(path) as here, ScoreStore(path) as there, ledger(here) as one, ledger(there) as other:
        one.score([("s", "a", "b"), ("s", "b", "c")], model)
        other.score([("s", "c", "a"), ("s", "b", "a")], model)
        one.commit()
    with ScoreStore(path) as store, ledger(store) as third:
        found = third.score([("s", "c", "a"), ("s", "a", "b"), ("s", "b", "a"), ("s", "b", "c")], model)
    assert len(model.asked) == 2
    np.testing.assert_array_equal(found, Model()([("s", "c", "a"), ("s", "a", "b"), ("s", "b", "a"), ("s", "b", "c")]))


def test_many_lists_of_one_source_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    rows = [("Thank you.", f"text {k}") for k in range(3000)]
    with ScoreStore(path) as store, ledger(store, Longer()) as one:
        for begin in range(0, 3000, 100):
            one.score(rows[begin : begin + 100], lambda some: np.array([len(row[1]) for row in some], np.float32))
        assert len(one._tables["Thank you."].codes) == 3000
    assert path.stat().st_size < 300_000


def test_a_gpu_has_scores_and_seconds_of_its_own(tmp_path: Path) -> None:
    class Elsewhere(Counting):
        on_gpu = True

    model = Model()
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        for utility in (Counting(), Elsewhere(), Counting()):
            with ledger(store, utility) as one:
                one.score(ROWS[:1], model)
    assert len(model.asked) == 2


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_no_number_is_not_kept_for_one(tmp_path: Path, wrong: float) -> None:
    asked = []

    def model(rows: Sequence[tuple[str, ...]]) -> Any:
        asked.append(len(rows))
        return np.array([wrong] * len(rows), np.float32)

    with ScoreStore(tmp_path / "scores.sqlite") as store, ledger(store) as one:
        for _ in range(2):
            assert not np.isfinite(one.score(ROWS[:1], model)).any()
        for _ in range(2):
            assert not np.isfinite(one.blocks([("s", "a")], lambda places: [np.array([[wrong]], np.float32)])[0]).any()
    assert asked == [1, 1]


def test_a_wrong_number_of_scores_goes_to_whoever_asked(tmp_path: Path) -> None:
    with ScoreStore(tmp_path / "scores.sqlite") as store, ledger(store) as one:
        assert one.score(ROWS, lambda rows: np.zeros(7)).shape == (7,)


def test_what_was_scored_before_an_error_is_kept(tmp_path: Path) -> None:
    model = Model()
    with ScoreStore(tmp_path / "scores.sqlite") as store:

        def interrupted() -> None:
            with ledger(store) as one:
                one.score(ROWS, model)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        with ledger(store) as other:
            other.score(ROWS, model)
    assert len(model.asked) == 1


def test_memory_stays_small_and_nothing_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 3)
    model = Model()
    rows = [[(f"source {k}", "a", "b")] for k in range(10)]
    with ScoreStore(tmp_path / "scores.sqlite") as store, ledger(store) as one:
        first = [one.score(row, model) for row in rows]
        assert len(one._tables) < 6
        np.testing.assert_array_equal([one.score(row, model) for row in rows], first)
    assert len(model.asked) == 10


def test_a_broken_file_is_moved_aside(tmp_path: Path) -> None:
    path, told, model = tmp_path / "scores.sqlite", [], Model()
    path.write_bytes(b"nonsense" * 1000)
    with ScoreStore(path, warn=told.append) as store, ledger(store) as one:
        one.score(ROWS, model)
    with ScoreStore(path) as store, ledger(store) as other:
        other.score(ROWS, model)
    assert len(model.asked) == 1
    assert "is broken" in told[0]


@pytest.mark.parametrize(
    ("kind", "strategy", "counter"),
    [
        (Counting, "race", "scored"),
        (Counting, "both", "scored"),
        (Overlap, "full", "matrices"),
        (Longer, "rerank", "rated"),
    ],
)
def test_decisions_are_those_without_a_memory(
    kind: type[Utility], strategy: str, counter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, counter, 0)
    items = lists(6)

    def decide(memory: Any = None) -> list[Decision]:
        recipe = Recipe(kind.name, strategy=strategy)
        decoder = open_decoder(recipe, utility=kind(), memory_of=lambda part: memory)
        return [decision for window in decoder.windows(items) for decision in window]

    plain = decide()
    count = getattr(kind, counter)
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        for _ in range(2):
            with ledger(store, kind()) as one:
                remembered = decide(memory=one)
            for first, second in zip(plain, remembered, strict=True):
                assert (first.ranking, first.passes) == (second.ranking, second.passes)
                np.testing.assert_array_equal(first.expected, second.expected)
    assert getattr(kind, counter) == 2 * count > 0


def test_aggregates_are_kept_by_their_weights(tmp_path: Path) -> None:

    items, calls = lists(3), []

    class Mean(Overlap):
        name = "mean"

        def aggregate(self, source: str, texts: Sequence[str], weights: Any, own_weights: Any) -> Any:
            calls.append(source)
            return np.array([len(text) * weights[0] for text in texts], np.float32)

    with ScoreStore(tmp_path / "scores.sqlite") as store:
        for weights in ("count", "logprob", "count"):
            with ledger(store, Mean()) as one:
                recipe = Recipe("mean", strategy="aggregate", weights=weights)  # type: ignore[arg-type]
                decoder = open_decoder(recipe, utility=Mean(), memory_of=lambda part, one=one: one)  # type: ignore[misc]
                assert len(list(decoder.windows(items))) == 1
    assert len(calls) == 6


def nan_entry() -> bytes:
    arrays = {"texts": np.frombuffer(b"[]", np.uint8), "codes": np.zeros(1, np.int64)}
    return module._pack({**arrays, "values": np.array([np.nan]), "seconds": np.zeros(1)})


@pytest.mark.parametrize(
    "damaged",
    [b"", b"junk", "text", 7, module.zlib.compress(b"junk"), module._pack({"other": np.zeros(1)}), nan_entry()],
    ids=["empty", "junk", "text", "number", "compressed junk", "other arrays", "NaN"],
)
def test_damaged_scores_are_named_and_computed_again(tmp_path: Path, damaged: object) -> None:
    path, model, warnings, blocks = tmp_path / "scores.sqlite", Model(), list[str](), list[int]()

    def compute(places: Sequence[int]) -> list[Any]:
        blocks.append(len(places))
        return [np.ones((2, 2), np.float32) for _ in places]

    for _ in range(3):
        with ScoreStore(path, warn=warnings.append) as store, ledger(store) as one:
            np.testing.assert_array_equal(one.score(ROWS[:2], model), Model()(ROWS[:2]))
            np.testing.assert_array_equal(one.blocks([("s", "a", "b")], compute)[0], np.ones((2, 2)))
        if len(model.asked) == 1:
            connection = sqlite3.connect(path)
            with connection:
                connection.execute("UPDATE scores SET value = ?", [damaged])
            connection.close()
    assert (len(model.asked), blocks) == (2, [1, 1])
    assert len(warnings) == 2
    assert "of the scores is damaged" in warnings[0]
    assert "2 damaged entries in all" in warnings[1]


def test_a_commit_replaces_what_was_damaged_since(tmp_path: Path) -> None:
    path, model = tmp_path / "scores.sqlite", Model()
    with ScoreStore(path) as store, ledger(store) as one:
        one.score(ROWS[:1], model)
        one.commit()
        store.put({key: b"junk" for (key,) in store._connection.execute("SELECT key FROM scores")})  # type: ignore[union-attr]
        one.score(ROWS[1:2], model)
    with ScoreStore(path, warn=pytest.fail) as store, ledger(store) as other:
        other.score(ROWS[:2], model)
    assert len(model.asked) == 2
