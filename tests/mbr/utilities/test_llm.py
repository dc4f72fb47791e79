"""A chat model as a utility, against a real server: few calls, equal decisions from the cache, faults, order bias."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mbr
from candidates import CandidateList
from candidates.chat.budget import BudgetSpent
from candidates.chat.reading import Unreadable
from candidates.common.errors import ModelError, UsageError
from mbr.cli.decode.command import command
from mbr.utilities import get_utility
from mbr.utilities.llm import read_verdict
from mbr.utilities.order_bias import OrderBias
from tests.conftest import write_jsonl
from tests.support.chat_server import ChatServer, Reply, answered, judged, serving

pytestmark = pytest.mark.one_world

SOURCE = "A dog runs."
TEXTS = [f"candidate {k}" for k in range(100)]


def quality(text: str) -> float:
    """From 0 to 2: candidate 42 is the best by far, as one of many samples may be."""
    return 2.0 if text.endswith(" 42") else zlib.crc32(text.encode()) / 2**32


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with serving(monkeypatch) as served:
        served.script = judged(quality)
        yield served


def decode(server: ChatServer, folder: Path, *words: Any) -> dict[str, Any]:
    lists, out = write_jsonl(folder / "l.jsonl", [{"source": SOURCE, "candidates": TEXTS}]), folder / "out.jsonl"
    judge = ["--utility", "llm", "--model", server.address, "--option", f"cache={folder / 'answers'}"]
    files = ["--candidates", str(lists), "--format", "jsonl", "--force", "-o", str(out)]
    assert command([*judge, *files, *map(str, words)]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def test_a_list_of_100_takes_a_budget_of_160_calls_and_the_cache_decides_the_same(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = decode(server, tmp_path, "--budget", 160)
    assert first["text"] == "candidate 42"
    assert len(server.bodies) == first["passes"] <= 160
    messages = capsys.readouterr().err
    calls = len(server.bodies)
    assert f"only-model: {calls} calls, {100 * calls:,} tokens; 0 answers from the cache" in messages
    assert "position bias: tau 0.00 over " in messages
    assert "--budget N bounds the pairs per list, --option calls=N the requests" in messages
    again = decode(server, tmp_path, "--budget", 160, "--option", "calls=0", "--option", "concurrency=1")
    assert again == first
    assert len(server.bodies) == calls
    assert f"0 calls, 0 tokens; {calls} answers from the cache" in capsys.readouterr().err


def test_a_budget_of_calls_is_never_passed_and_a_larger_one_goes_on(server: ChatServer, tmp_path: Path) -> None:
    with pytest.raises(BudgetSpent, match="100 calls does not suffice"):
        decode(server, tmp_path, "--option", "calls=100", "--budget", 160)
    assert len(server.bodies) == 100
    assert decode(server, tmp_path, "--option", "calls=60", "--budget", 160)["text"] == "candidate 42"
    assert len(server.bodies) <= 160


def test_a_run_whose_budget_is_spent_continues_with_a_larger_one(server: ChatServer, tmp_path: Path) -> None:
    records = [{"source": f"{SOURCE} {n}", "candidates": TEXTS[n % 90 : n % 90 + 4]} for n in range(200)]
    lists, out = write_jsonl(tmp_path / "l.jsonl", records), tmp_path / "best.txt"
    words = ["--utility", "llm", "--model", server.address, "--candidates", str(lists), "-o", str(out)]
    words += ["--option", f"cache={tmp_path / 'answers'}"]
    with pytest.raises(BudgetSpent):
        command([*words, "--option", "calls=700"])
    assert len(server.bodies) == 700
    assert command([*words, "--option", "calls=2000", "--option", "concurrency=3", "--resume"]) == 0
    assert len(server.bodies) <= 200 * 7
    assert len(out.read_text().splitlines()) == 200


@pytest.mark.parametrize("words", [("--add", "llm=1"), ("--prefilter", "llm:30")])
def test_as_a_term_or_first_stage_it_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="a request for each pair"):
        command(["--utility", "chrf", "--candidates", "l.jsonl", *words])


def test_a_leaning_judge_is_found_out(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first place adds 0.6 to differences whose root mean square is about 0.45."""
    server.script = judged(quality, lean=0.6)
    record = decode(server, tmp_path, "--strategy", "race:tolerance=0:budget=700")
    assert record["text"] == "candidate 42"
    assert record["tau"] > 0.8
    report = next(line for line in capsys.readouterr().err.splitlines() if "position bias" in line)
    assert "the first place adds +0.6" in report
    # Of the few pairs that are judged in both orders; these differ by more than the others.
    assert 0.3 < float(report.split("tau ")[1].split()[0]) < 3


def test_both_orders_are_exactly_antisymmetric_whatever_the_place_adds(server: ChatServer, tmp_path: Path) -> None:
    server.script = judged(quality, lean=0.3)
    triples = [(SOURCE, a, b) for a in TEXTS[:4] for b in TEXTS[:4] if a < b]
    with get_utility("llm", model=server.address, orders="both", cache="none") as utility:
        forward = utility.score_pairs(triples)
        backward = utility.score_pairs([(s, b, a) for s, a, b in triples])
        assert (forward == -backward).all()
        assert np.allclose(forward, [quality(a) - quality(b) for _, a, b in triples], atol=0.011)
        assert utility.bias.lean == pytest.approx(0.3, abs=0.011)
        assert utility.settings()["orders"] == "both"
    assert len(server.bodies) == 4 * len(triples)


def test_tau_is_the_root_mean_square_of_the_bias_over_that_of_the_differences() -> None:
    bias = OrderBias()
    assert (bias.tau, bias.pairs) == (None, 0)
    for (a, b), forward, backward in [(("x", "y"), 2.0, -1.0), (("x", "z"), 1.0, 1.0), (("y", "z"), -3.0, 3.0)]:
        bias.add(("s", a, b), forward)
        bias.add(("s", b, a), backward)
    bias.add(("s", "x", "x"), 9.0)  # no pair
    bias.add(("t", "x", "y"), 9.0)  # one order
    assert (bias.pairs, bias.changed) == (3, 1)
    assert bias.tau == pytest.approx(math.sqrt((0.25 + 1 + 0) / (2.25 + 0 + 9)))
    assert bias.lean == pytest.approx(0.5)
    only_places = OrderBias()
    only_places.add(("s", "x", "y"), 1)
    only_places.add(("s", "y", "x"), 1)
    assert only_places.tau == math.inf
    assert only_places.record()["position_tau"] is None


FAULTS = {
    "429": Reply(status=429, headers={"Retry-After": "0"}),
    "500": Reply(status=500),
    "garbage": answered("Both are lovely."),
    "refusal": answered("I'm sorry, I can't compare these."),
    "truncated": answered('{"better": "A', finish="length"),
    "out of range": answered('{"better": "A", "degree": 1000000}'),
    "half a body": Reply(b"{"),
    "closed": Reply(close=True),
    "hang": Reply(hang=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faults_on_the_way_change_no_score(server: ChatServer, fault: Reply) -> None:
    good = judged(quality)
    server.script = lambda prompt, asked, body: (
        fault if not asked and "candidate 3" in prompt else good(prompt, 0, body)
    )
    triples = [(SOURCE, TEXTS[k], TEXTS[k + 1]) for k in range(5)]
    with get_utility("llm", model=server.address, cache="none", timeout=0.5) as utility:
        scores = utility.score_pairs(triples)
    assert np.allclose(scores, [quality(a) - quality(b) for _, a, b in triples], atol=0.011)


def test_what_stays_unreadable_is_a_tie_and_counted(server: ChatServer) -> None:
    good = judged(quality)
    server.script = lambda prompt, asked, body: answered("No.") if "candidate 3" in prompt else good(prompt, 0, body)
    with get_utility("llm", model=server.address, cache="none") as utility:
        scores = utility.score_pairs([(SOURCE, TEXTS[k], TEXTS[k + 1]) for k in range(5)])
        sentences = [sentence for sentence, _ in utility.report()]
    assert scores[2] == scores[3] == 0 != scores[0]
    assert "2 pairs without an answer that can be read: taken as ties" in sentences
    assert "6 answers could not be read" in sentences[0]


def test_a_pair_without_an_answer_fails_its_list_alone(server: ChatServer, tmp_path: Path) -> None:
    good = judged(quality)
    server.script = lambda prompt, asked, body: (
        Reply(status=500) if "candidate 3" in prompt else good(prompt, asked, body)
    )
    lists = [CandidateList.of(s, TEXTS[n : n + 3], id=s) for s, n in (("one", 1), ("two", 40))]
    options = {"model": server.address, "cache": "none", "retries": 0, "concurrency": 8}
    failed, decided = mbr.decode(lists, utility="llm", on_error="fallback", **options)
    assert decided.error is None
    assert decided.text == "candidate 42"
    for part in (f"no answer from {server.address} in 1 attempt", "HTTP 500", "lower the option concurrency"):
        assert part in str(failed.error)
    assert "--concurrency" not in str(failed.error)


def test_messages_name_the_options_of_the_utility(server: ChatServer) -> None:
    server.models = {"data": [{"id": "a"}, {"id": "b"}]}
    with pytest.raises(UsageError, match=r"choose one with the option server_model \(mbr-decode --option") as caught:
        get_utility("llm", model=server.address)
    assert "--server-model" not in str(caught.value)


@pytest.mark.parametrize(("cache", "fate"), [("none", "answers so far are lost"), ("answers", "are in the cache")])
def test_a_spent_budget_says_whether_answers_are_kept(
    server: ChatServer, tmp_path: Path, cache: str, fate: str
) -> None:
    kept = cache if cache == "none" else str(tmp_path / cache)
    with get_utility("llm", model=server.address, calls=1, cache=kept) as utility, pytest.raises(BudgetSpent) as caught:
        utility.score_pairs([(SOURCE, TEXTS[k], TEXTS[k + 1]) for k in range(3)])
    assert fate in str(caught.value)


def test_a_key_that_is_refused_ends_the_run(server: ChatServer) -> None:
    server.script = lambda prompt, asked, body: Reply(status=401)
    with get_utility("llm", model=server.address, cache="none") as utility, pytest.raises(ModelError, match="API_KEY"):
        utility.score_pairs([(SOURCE, "a", "b")])


def test_a_dry_run_sends_nothing(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = write_jsonl(tmp_path / "l.jsonl", [{"source": SOURCE, "candidates": TEXTS}])
    command(["--utility", "llm", "--model", server.address, "--candidates", str(lists), "--budget", "160", "--dry-run"])
    out = capsys.readouterr().out
    assert "pairs       160 (about " in out
    assert "a request to the server for each pair, which was not tried" in out
    assert not server.bodies


def test_the_prompt_can_be_replaced_and_is_part_of_the_signature(server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text('{src_lang} """{source}""" A """{a}""" B """{b}"""')
    options: dict[str, Any] = {"model": server.address, "cache": "none", "prompt": str(file)}
    with pytest.raises(UsageError, match="src_lang"):
        get_utility("llm", **options)
    with get_utility("llm", **options, src_lang="is") as utility:
        utility.score_pairs([(SOURCE, "a", "b")])
        settings = utility.settings()
    assert server.bodies[0]["messages"][0]["content"].startswith('Icelandic """A dog runs."""')
    with get_utility("llm", model=server.address, cache="none") as utility:
        assert utility.settings()["prompt"] != settings["prompt"]
    assert settings["languages"] == "Icelandic"
    with pytest.raises(UsageError, match="--model http"):
        get_utility("llm")
    with pytest.raises(UsageError, match="orders='three'"):
        get_utility("llm", model=server.address, orders="three")


VERDICTS = [
    ('{"better": "A", "degree": 2}', 2.0),
    ('```json\n{"better": "B", "degree": 3}\n```', -3.0),
    ('Translation B is closer. {"better": "translation b"}', -1.0),
    ('{"better": "tie", "degree": 0}', 0.0),
    ("A", 1.0),
    ("[[B]]", -1.0),
    ("**Tie.**", 0.0),
    ("Better: A", 1.0),
]


@pytest.mark.parametrize(("text", "score"), VERDICTS)
def test_verdicts(text: str, score: float) -> None:
    assert read_verdict(text) == score


@pytest.mark.parametrize(
    "text",
    [
        "A is good and B is bad",
        '{"better": "D"}',
        '{"better": 1}',
        '{"better": "A", "degree": -1}',
        '{"better": "A", "degree": NaN}',
        '{"better": "A", "degree": true}',
        "{" * 5000,
        "",
    ],
)
def test_what_is_no_verdict_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read_verdict(text)
