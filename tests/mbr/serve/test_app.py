"""Our own endpoints over HTTP: decisions, deadlines, failures, a full queue, clients that leave, log and numbers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import mbr
from candidates.generation import Settings as Search
from candidates.generation import open_generator
from candidates.lists import Candidate
from mbr.opening import open_decoder
from mbr.recipe import Changes, Recipe, TermSpec, parse_guards, plan
from mbr.serve.client import Client, ServiceError
from mbr.serve.shapes import DecodeOut
from mbr.serve.translator import Translator
from tests.mbr.serve.conftest import Open, Site, site
from tests.mbr.serve.made import SENTENCES, Faulty

pytestmark = pytest.mark.one_world

RUNTIME = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def bundled() -> Iterator[Site]:
    """The bundled models, as `mbr-serve` serves them without options; and chrF with a term."""
    generator = open_generator(Search(nbest=8), threads=1)
    with Translator(generator) as translator:
        recipes = {
            "translations": plan(Changes(), origin=translator.origin),
            "default": plan(Changes()),
            "chrf": Recipe("chrf", terms=(TermSpec("length", 2.0),)),
        }
        decoders = {name: open_decoder(recipe, runtime=RUNTIME) for name, recipe in recipes.items()}
        with site(decoders, translator) as running:
            yield running


def body(source: str = "A dog.", size: int = 6, **options: Any) -> dict[str, Any]:
    return {"source": source, "candidates": [f"t {k}" for k in range(size)], **options}


@pytest.mark.parametrize("recipe", ["default", "chrf"])
def test_alone_a_request_equals_the_library_bit_for_bit(recipe: str, bundled: Site) -> None:
    for source, texts in SENTENCES.items():
        choice = bundled.client.decode(source, texts, recipe=recipe, top=10, return_matrix=True)
        decoder = bundled.service.scheduler.recipes[recipe]
        expected = mbr.rerank(source, texts, decoder.recipe, keep_matrix=True, **RUNTIME)
        assert choice.text == expected.text
        assert choice.passes == expected.passes
        assert [entry.position for entry in choice.ranking] == list(expected.ranking)
        for entry in choice.ranking:
            assert entry.score == expected.scores[entry.position]
            assert entry.expected_utility == expected.expected[entry.position]
            assert entry.terms == {name: values[entry.position] for name, values in expected.terms.items()}
        assert expected.matrix is not None
        known = expected.matrix.scored | expected.matrix.scored.T
        np.testing.assert_array_equal(
            np.array(choice.raw["matrix"]["values"], np.float32), np.where(known, expected.matrix.values, np.nan)
        )
        assert choice.raw["estimated_regret"] == expected.estimated_regret
        assert choice.signature == str(decoder.signature())


def test_mixed_with_others_the_choice_is_the_same(bundled: Site) -> None:
    jobs = [(source, [f"{text}{'!' * k}" for text in texts]) for k in range(3) for source, texts in SENTENCES.items()]
    decoder = bundled.service.scheduler.recipes["default"]
    with ThreadPoolExecutor(12) as pool:
        choices = list(pool.map(lambda job: bundled.client.decode(*job, recipe="default", top=9), jobs))
    for (source, texts), choice in zip(jobs, choices, strict=True):
        expected = mbr.rerank(source, texts, decoder.recipe, **RUNTIME)
        assert [entry.position for entry in choice.ranking] == list(expected.ranking)
        scores = [entry.score for entry in choice.ranking]
        np.testing.assert_allclose(scores, expected.scores[list(expected.ranking)], atol=1e-6, rtol=0)


def test_a_text_is_translated_as_by_the_library(bundled: Site) -> None:
    choice = bundled.client.translate("Where is the station?", nbest=12, return_candidates=True, top=3)
    with open_generator(Search(nbest=12), threads=1) as generator:
        (item,) = generator.generate(["Where is the station?"])
    (expected,) = mbr.decode([item], **RUNTIME)  # type: ignore[list-item]
    assert choice.text == expected.text
    assert choice.raw["recipe"] == "translations"
    assert (
        [(entry.text, entry.score) for entry in choice.ranking]
        == [
            (expected.candidates.texts[k], expected.scores[k])  # type: ignore[union-attr]
            for k in expected.ranking[:3]
        ]
    )
    listed = [Candidate(**entry) for entry in choice.raw["candidates"]]
    assert listed == list(item.listed())  # type: ignore[union-attr]


def test_an_answer_names_the_candidates_that_guards_dropped() -> None:
    guarded = open_decoder(Recipe("chrf", guards=parse_guards(["numbers", "tags"])))
    with site({"guarded": guarded}) as where:
        texts = ["Drei Hunde.", "<b>5 Hunde.</b>", "3 Hunde.", "Es sind 3 Hunde.", "Hunde."]
        answer = where.post("/v1/decode", {"source": "3 dogs.", "candidates": texts}).json()
        assert (answer["dropped"], answer["dropped_by"]) == (2, {"numbers": 2, "tags": 1})
        assert answer["dropped_candidates"] == [
            {"text": texts[1], "position": 1, "guards": ["numbers", "tags"]},
            {"text": texts[4], "position": 4, "guards": ["numbers"]},
        ]
        DecodeOut.model_validate(answer)
        assert "dropped" not in where.post("/v1/decode", {"source": "Dogs.", "candidates": ["a", "b"]}).json()


@pytest.mark.parametrize("path", ["/health", "/ready", "/", "/info"])
def test_head_is_get_without_a_body(path: str, bundled: Site) -> None:
    head, get = bundled.http.head(path), bundled.http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]
    assert bundled.http.head("/v1/decode").status_code == 405


def test_several_texts_are_translated_in_order(bundled: Site) -> None:
    texts = ["A dog runs.", "", "Tom is sick.", "A dog runs."]
    choices = bundled.client.translate_all(texts, nbest=4, utility="chrf")
    assert [bundled.client.translate(text, nbest=4, utility="chrf").text for text in texts] == [
        choice.text for choice in choices
    ]
    assert choices[1].text == ""
    assert choices[0].text == choices[3].text


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({}, 422, "neither of `text` and `texts`"),
        ({"text": "a", "texts": ["a"]}, 422, "both of `text` and `texts`"),
        ({"texts": []}, 422, "texts"),
        ({"texts": ["a"] * 65}, 413, "65 texts"),
        ({"text": "a", "nbest": 257}, 422, "nbest 257 is out of range"),
        ({"text": "a", "recipe": "other"}, 422, "expected one of translations, default, chrf"),
        ({"text": "a", "recipe": "chrf", "utility": "chrf"}, 422, "both"),
        ({"text": "a", "utility": "comet"}, 422, "expected one of pear, chrf"),
    ],
)
def test_wrong_translations_are_refused(content: Any, status: int, words: str, bundled: Site) -> None:
    answer = bundled.post("/v1/translate", content)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


def test_what_is_known_of_candidates_is_used_and_echoed(bundled: Site) -> None:
    entries = [
        {"text": "Ein Hund.", "logprob": -3.0, "system": "a"},
        {"text": "Der Hund.", "count": 3, "logprob": -1.0, "system": "b"},
        {"text": "Ein Hund.", "logprob": -2.0},
    ]
    answer = bundled.post(
        "/v1/decode", {"id": "my id", "source": "A dog.", "candidates": entries, "recipe": "translations", "top": 5}
    ).json()
    assert answer["id"] == "my id"
    ranking = {entry["text"]: entry for entry in answer["ranking"]}
    assert (ranking["Ein Hund."]["system"], ranking["Ein Hund."]["count"]) == ("a", 2)
    assert ranking["Der Hund."]["count"] == 3
    assert answer["system"] == ranking[answer["text"]]["system"]
    assert answer["usage"]["unique"] == 2


def test_a_failure_is_424_and_the_next_request_is_fine(open_site: Open) -> None:
    where = open_site()
    for word in ("nan", "bug"):
        answer = where.post("/v1/decode", body(f"{word} secret"))
        assert (answer.status_code, answer.json()["error_type"]) == (424, "scoring_failed")
    assert where.post("/v1/decode", body("memory")).status_code == 200
    assert where.number('mbr_dropped_total{reason="failed"}') == 2
    assert [line for line in where.errors if "KeyError" in line]
    assert "secret" not in " ".join(where.errors)


def test_with_fallback_a_failure_is_flagged_and_counted(open_site: Open) -> None:
    where = open_site(fallback=True)
    answer = where.post("/v1/decode", body("nan"))
    assert (answer.status_code, answer.json()["text"], answer.json()["flags"]) == (200, "t 0", ["fallback"])
    assert answer.headers["x-flags"] == "fallback"
    assert "not finite" in answer.json()["error"]
    assert where.number("mbr_fallbacks_total") == 1
    ranked = where.post("/v1/rerank", {"query": "nan", "documents": ["b", "a"]}).json()
    assert [result["index"] for result in ranked["results"]] == [0], "the others were not compared"


def test_deadlines(open_site: Open, utility: Faulty) -> None:
    utility.seconds_per_call = 0.05
    where = open_site(portion=16)
    late = where.post("/v1/decode", body("x", 60, timeout_ms=200))
    assert (late.status_code, late.json()["error_type"]) == (504, "deadline_passed")
    best = where.post("/v1/decode", body("x", 60, timeout_ms=400, on_deadline="best"))
    assert (best.status_code, best.json()["partial"], best.headers["x-flags"]) == (200, True, "partial")
    none = where.post("/v1/decode", body("x", 60, timeout_ms=200, on_deadline="best", recipe="half"))
    assert (none.status_code, "'half' cannot" in none.json()["error"]) == (504, True)
    assert where.number("mbr_partial_answers_total") == 1
    assert where.number('mbr_dropped_total{reason="deadline"}') == 2


def test_a_full_queue_is_429_and_bounded(open_site: Open, utility: Faulty) -> None:
    where = open_site(max_queue_tokens=1000)
    utility.go.clear()
    with ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(where.post, "/v1/decode", body(f"{k}"), timeout=30) for k in range(20)]
        while sum(future.done() for future in futures) < 5:
            time.sleep(0.01)
        assert where.service.scheduler.queue_tokens <= 1000
        utility.go.set()
        answers = [future.result() for future in futures]
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert answer.json()["error_type"] == "overloaded"
    assert where.post("/v1/decode", body("after")).status_code == 200
    assert where.post("/v1/decode", body("x" * 9000, 60, recipe="half")).status_code == 413


def leave(where: Site, content: dict[str, Any], wait: threading.Event) -> None:
    """Send a request and close the connection once it is under way."""
    raw = json.dumps(content).encode()
    with socket.create_connection(("127.0.0.1", where.port)) as connection:
        connection.sendall(b"POST /v1/decode HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(raw), raw))
        assert wait.wait(20)
        end = time.monotonic() + 10
        while not where.service.scheduler.jobs and time.monotonic() < end:
            time.sleep(0.01)


def eventually(what: Any) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_client_that_leaves_the_queue_costs_nothing(open_site: Open, utility: Faulty) -> None:
    where = open_site(step_tokens=1)
    utility.go.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(where.post, "/v1/decode", body("first"), timeout=30)
        assert utility.scoring.wait(20)
        leave(where, body("left"), utility.scoring)
        eventually(lambda: any(line["status"] == 499 for line in where.log))
        calls = sum(utility.calls)
        utility.go.set()
        assert first.result().status_code == 200
    eventually(lambda: where.service.scheduler.jobs == 0)
    assert sum(utility.calls) - calls <= 15, "only the first was scored"
    assert where.number('mbr_dropped_total{reason="client gone"}') == 1


def test_a_client_that_leaves_in_the_middle_is_taken_out(open_site: Open, utility: Faulty) -> None:
    utility.seconds_per_call = 0.01
    where = open_site()
    leave(where, body("left", 100, recipe="half"), utility.scoring)
    eventually(lambda: where.service.scheduler.jobs == 0)
    assert sum(utility.calls) < 3000
    assert where.number('mbr_dropped_total{reason="client gone"}') == 1


def test_equal_requests_are_joined_with_their_own_ids(open_site: Open, utility: Faulty) -> None:
    where = open_site()
    utility.go.clear()
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(where.post, "/v1/decode", body("same", id=k), timeout=30) for k in range(3)]
        eventually(lambda: where.number("mbr_joined_requests_total") == 2)
        utility.go.set()
        answers = [future.result().json() for future in futures]
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert len({json.dumps({**answer, "id": 0}) for answer in answers}) == 1


def test_every_answer_has_an_id_and_times_and_a_line_of_log_without_texts(open_site: Open) -> None:
    where = open_site()
    answer = where.post("/v1/decode", body("geheim"), headers={"x-request-id": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    assert float(answer.headers["x-queue-time"]) >= 0
    assert float(answer.headers["x-inference-time"]) > 0
    other = where.post("/v1/decode", body(), headers={"x-request-id": "two words"})
    assert other.headers["x-request-id"] != "two words"
    where.post("/geheim", {"geheim": 1})
    where.post("/v1/decode", {"source": "geheim"})
    eventually(lambda: len(where.log) == 4)
    assert where.log[0]["id"] == "abc-1"
    assert {"method", "route", "status", "recipe", "candidates", "passes", "tokens", "queue_ms", "ms"} <= set(
        where.log[0]
    )
    assert [line["route"] for line in where.log] == ["/v1/decode", "/v1/decode", "other", "/v1/decode"]
    assert [line["status"] for line in where.log] == [200, 200, 404, 422]
    assert "geheim" not in json.dumps(where.log)
    assert "t 0" not in json.dumps(where.log)


def test_numbers_for_prometheus(open_site: Open) -> None:
    where = open_site()
    where.post("/v1/decode", body())
    where.http.get("/nothing/here")
    text = where.http.get("/metrics").text
    for line in (
        'mbr_requests_total{code="200",route="/v1/decode"} 1.0',
        'mbr_requests_total{code="404",route="other"} 1.0',
        "mbr_queue_requests 0.0",
        "mbr_queue_tokens 0.0",
        "mbr_queue_seconds_count 1.0",
        'mbr_decode_seconds_count{recipe="race"} 1.0',
        "mbr_step_seconds_count",
        "mbr_batch_tokens_total",
        "mbr_padding_tokens_total",
        "mbr_passes_total ",
        "mbr_cache_hits_total",
    ):
        assert line in text, line


def test_info_names_what_is_served_and_every_limit(bundled: Site) -> None:
    info = bundled.client.info()
    assert list(info["recipes"]) == ["translations", "default", "chrf"]
    assert info["translator"]["model"].startswith("en-de@")
    assert info["limits"] == bundled.service.settings.described()
    assert [model["id"] for model in bundled.client.get("/v1/models")["data"]] == list(info["recipes"])
    assert bundled.client.ready()


def test_before_and_after_its_time_a_service_refuses(open_site: Open) -> None:
    where = open_site()
    where.service.state = "starting"
    assert where.http.get("/ready").status_code == 503
    assert where.http.get("/health").status_code == 200
    where.service.drain(0)
    answer = where.post("/v1/decode", body())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert not where.client.ready()


def test_the_client_raises_what_the_service_answers(open_site: Open) -> None:
    where = open_site(max_candidates=3, nbest=3)
    with pytest.raises(ServiceError, match="413: 4 candidates") as caught:
        where.client.decode("s", ["a", "b", "c", "d"])
    assert (caught.value.status, caught.value.retry_after) == (413, None)
    where.service.drain(0)
    with pytest.raises(ServiceError) as caught:
        where.client.decode("s", [Candidate("a", -1.0), "b"])
    assert (caught.value.status, caught.value.retry_after) == (503, 1)
    with pytest.raises(ServiceError, match="does not answer"):
        Client("http://127.0.0.1:1").info()


def test_spans_of_opentelemetry_hold_no_texts(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    from opentelemetry import trace

    spans: list[tuple[str, Any, dict[str, Any]]] = []

    class Span:
        def __init__(self, name: str, context: Any) -> None:
            self.name, self.context = name, context

        def set_attributes(self, attributes: dict[str, Any]) -> None:
            spans.append((self.name, self.context, dict(attributes)))

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str, context: Any = None) -> Iterator[Span]:
            yield Span(name, context)

    monkeypatch.setattr(trace, "get_tracer", lambda name: Tracer())
    where = open_site()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    where.post("/v1/decode", body("geheim"), headers={"traceparent": parent})
    eventually(lambda: spans)
    name, context, attributes = spans[0]
    assert name == "POST /v1/decode"
    assert f"{trace.get_current_span(context).get_span_context().trace_id:032x}" in parent
    assert attributes["mbr.status"] == 200
    assert "geheim" not in str(attributes)


def test_small_requests_answer_beside_a_large_one() -> None:
    """4,950 pairs of the bundled model in the background; the bound for small ones is in benchmarks/load_serve.py."""
    large = {"source": "Where is the station?", "candidates": [f"Wo ist der Bahnhof {k}?" for k in range(100)]}
    decoder = open_decoder(Recipe("pear", {"model": "en-de"}, strategy="half"), runtime=RUNTIME)
    with site({"half": decoder}) as where, ThreadPoolExecutor(1) as pool:
        future = pool.submit(where.http.post, "/v1/decode", json=large, timeout=120)
        eventually(lambda: where.number("mbr_batch_tokens_total") > 5000)
        for k in range(3):
            assert where.client.decode("Tom is sick.", [f"Tom ist {k} krank{j}." for j in range(6)]).passes == 15
            assert not future.done()
        where.service.scheduler.close()  # the large one need not be finished here
        assert future.result(20).status_code == 503
