"""Decisions on a cluster are those of one process, whatever dies on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import EnvironmentProblem, InputError, MbrError, ModelError, ResourceError
from candidates.formats import BadRecord, Record
from candidates.lists import CandidateList
from mbr.cli.decode.records import render
from mbr.opening import DecoderPlan
from mbr.pipeline import Decoder
from mbr.ray.runner import ClusterRun
from mbr.ray.session import ClusterOptions, Session
from mbr.recipe import Recipe, read_recipe

pytestmark = pytest.mark.one_world
CHRF = Recipe("chrf", strategy="halving", strategy_options={"budget": 20}, weights="uniform")


def lines(windows: Iterator[list[Any]]) -> list[bytes]:
    return [render(decision, "jsonl", 2) for window in windows for decision in window]


@pytest.fixture
def session(cluster: Any) -> Iterator[Session]:
    with Session(ClusterOptions(cluster.address, workers=2, patience=60)) as opened:
        yield opened


def opened(plan: DecoderPlan, lists_per_window: int = 6) -> Decoder:
    """The driver's decoder, with small windows."""
    decoder = plan.open()
    decoder.utility.window_passes = 1  # every list closes a window ...
    small = decoder.cut

    def cut(records: Any) -> Iterator[list[Record]]:  # ... of which some are put together
        window: list[Record] = []
        for records_of_one in small(records):
            window += records_of_one
            if len(window) >= lists_per_window:
                yield window
                window = []
        if window:
            yield window

    object.__setattr__(decoder, "cut", cut)
    return decoder


def test_two_workers_give_the_bytes_of_one_process(session: Session, lists: list[CandidateList]) -> None:
    """With the bundled PEAR, a term from the list, and others that load models of their own."""
    plan = DecoderPlan(read_recipe("en-de").complete(), {"threads": 1})
    with opened(plan) as decoder:
        run = ClusterRun(session, plan)
        assert lines(run.windows(decoder, lists[:24])) == lines(decoder.windows(lists[:24]))
    totals = run.summary.nodes.values()
    assert sum(node.segments for node in totals) == 24
    assert sum(node.workers for node in totals) == 2
    assert sum(node.lost_workers for node in totals) == 0
    assert all("CPU s" in line for line in run.summary.lines())


def test_a_worker_killed_and_a_node_removed_lose_nothing(
    cluster: Any, session: Session, lists: list[CandidateList]
) -> None:
    """Lists hold a worker back for a moment, so that it dies with work in hand."""
    plan = DecoderPlan(CHRF, check=slow)
    warnings: list[str] = []
    run = ClusterRun(session, plan, warnings.append)
    with opened(plan) as decoder, opened(DecoderPlan(CHRF)) as plain:
        expected = lines(plain.windows(lists))
        result: list[bytes] = []
        for number, window in enumerate(run.windows(decoder, lists)):
            result += lines(iter([window]))
            if number == 0:
                os.kill(run.processes()[0], signal.SIGKILL)
            if number == 4:
                cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
                cluster.add_node(num_cpus=1)
    assert result == expected
    assert sum(node.lost_workers for node in run.summary.nodes.values()) >= 2
    assert sum(node.lost_windows for node in run.summary.nodes.values()) >= 1
    assert "died" in warnings[0]


def slow(item: CandidateList) -> None:
    import time

    time.sleep(0.1)


def test_bad_records_are_treated_as_in_one_process(session: Session, lists: list[CandidateList]) -> None:
    records = [*lists[:9], BadRecord("broken", InputError("no candidates"), "a source"), *lists[9:20]]
    for on_error in ("skip", "fallback"):
        plan = DecoderPlan(CHRF, on_error=on_error)  # type: ignore[arg-type]
        with opened(plan) as decoder:
            there = lines(ClusterRun(session, plan).windows(decoder, records))
            assert there == lines(decoder.windows(records))
    plan = DecoderPlan(CHRF)
    for bad, message in ((records, "no candidates"), (breaks_off(lists[:9]), "line 10")):
        with opened(plan) as decoder:
            before: list[bytes] = []
            with pytest.raises(InputError, match=message):
                before.extend(
                    line for window in ClusterRun(session, plan).windows(decoder, bad) for line in lines(iter([window]))
                )
            assert before == lines(decoder.windows(lists[: len(before)]))
            assert len(before) >= 6


def breaks_off(lists: Sequence[CandidateList]) -> Iterator[Record]:
    yield from lists
    raise InputError("line 10: bad UTF-8")


def test_a_window_that_kills_its_workers_is_named(session: Session, lists: list[CandidateList]) -> None:
    plan = DecoderPlan(CHRF, check=partial(deadly, id=lists[7].id))
    with opened(plan) as decoder, pytest.raises(ResourceError, match=f"from {lists[6].id!r} to {lists[11].id!r}"):
        list(ClusterRun(session, plan).windows(decoder, lists))


def deadly(item: CandidateList, id: object) -> None:
    if item.id == id:
        os._exit(1)


@pytest.mark.parametrize(
    ("options", "there", "error", "message"),
    [
        (ClusterOptions(workers=1, cpus=64, patience=2), CHRF, EnvironmentProblem, "each needs 64 CPUs"),
        (ClusterOptions(workers=1), replace(CHRF, seed=2), EnvironmentProblem, "install the same package and models"),
        (ClusterOptions(workers=1), Recipe("pear", {"model": "./nowhere"}), ModelError, "node .*nowhere"),
    ],
)
def test_what_cannot_run_is_said_in_words(
    cluster: Any,
    lists: list[CandidateList],
    options: ClusterOptions,
    there: Recipe,
    error: type[MbrError],
    message: str,
) -> None:
    with (
        Session(replace(options, address=cluster.address)) as opened_session,
        opened(DecoderPlan(CHRF)) as decoder,
        pytest.raises(error, match=message),
    ):
        list(ClusterRun(opened_session, DecoderPlan(there.complete())).windows(decoder, lists))


def test_an_address_without_a_cluster_is_an_environment_problem(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`, which the COMET environment has")
    with pytest.raises(EnvironmentProblem, match="no Ray cluster at '127.0.0.1:1'"):
        Session(ClusterOptions("127.0.0.1:1"))
