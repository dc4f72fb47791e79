"""The back-end for chat servers, against a real server in this process: requests, order, seeds, options."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from candidates import Record
from candidates.backends.openai.generator import ServerGenerator
from candidates.common.errors import ModelError, UsageError
from candidates.generation import Settings, open_generator
from tests.support.chat_server import ChatServer, Reply, bad, choice, first, good, lists

pytestmark = pytest.mark.one_world


def test_the_request_holds_the_settings_and_nothing_that_was_not_given(server: ChatServer) -> None:
    server.records(["s"])
    (body,) = server.bodies
    assert 0 <= body.pop("seed") < 2**31
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "s"}],
        "n": 2,
        "temperature": 1.0,
        "logprobs": True,
        "max_tokens": 50,
    }
    settings = Settings(nbest=1, method="sample", temperature=0.5, top_k=7, top_p=0.9)
    with ServerGenerator(server.address, settings, server_model="m", prompt="{source}") as generator:
        list(generator.generate(["t"]))
    assert {"temperature": 0.5, "top_k": 7, "top_p": 0.9}.items() <= server.bodies[1].items()


def test_order_is_kept_whatever_answers_first(server: ChatServer) -> None:
    delays = random.Random(5)

    def slow(source: str, asked: int, body: dict[str, Any]) -> Reply:
        time.sleep(delays.uniform(0, 0.02))
        return good(source, asked, body)

    server.script = slow
    sources = [f"s{place}" for place in range(60)]
    items = lists(server.records(sources, concurrency=8))
    assert [item.id for item in items] == list(range(60))
    assert [item.source for item in items] == sources
    assert all(item.texts[0].startswith(f"{item.source} ") for item in items)


def by_source(bodies: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(body) for body in bodies)


def test_the_same_seed_asks_the_same_and_another_seed_does_not(server: ChatServer) -> None:
    asked = []
    for seed, concurrency in ((1, 1), (1, 8), (2, 8)):
        server.bodies = []
        server.records(["a", "b", "c", "a"], seed=seed, concurrency=concurrency)
        asked.append(by_source(server.bodies))
        assert len({body["seed"] for body in server.bodies}) == 4
    assert asked[0] == asked[1]
    assert not set(asked[0]) & set(asked[2])


def test_a_request_tried_again_keeps_its_seed(server: ChatServer) -> None:
    server.script = first(Reply(status=500))
    server.records(["s"])
    assert server.bodies[0] == server.bodies[1]


def test_skipped_sources_keep_their_places_and_are_not_asked_for(server: ChatServer) -> None:
    whole = server.records(["a", "b", "", "d"])
    server.bodies = []
    with server.generator() as generator:
        assert list(generator.generate(["a", "b", "", "d"], skip=1)) == whole[1:]
    assert sorted(body["messages"][0]["content"] for body in server.bodies) == ["b", "d"]


def test_blank_lines_never_reach_the_server(server: ChatServer) -> None:
    items = lists(server.records(["", " \t", "s", "\u3000"]))
    assert [item.texts for item in items if item.id != 2] == [("",)] * 3
    assert [body["messages"][0]["content"] for body in server.bodies] == ["s"]


def test_only_a_few_sources_are_read_ahead(server: ChatServer) -> None:
    taken = 0

    def many() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"s{taken}"

    server.script = lambda source, asked, body: Reply({"choices": [choice("x")]})
    with server.generator(nbest=1, concurrency=2) as generator:
        stream = generator.generate(many())
        assert [next(stream).id for _ in range(5)] == list(range(5))
        assert taken <= 5 + 4 * 2


def test_a_list_is_given_out_when_it_is_there_and_not_when_the_look_ahead_is_full(server: ChatServer) -> None:
    got: list[Record] = []

    def sources() -> Iterator[str]:
        for place in range(30):
            if got:
                return
            yield f"s{place}"
            time.sleep(0.02)

    with server.generator(concurrency=8) as generator:
        for item in generator.generate(sources()):
            got.append(item)
    assert len(got) < 30


def test_sentences_are_asked_for_one_by_one_and_joined(server: ChatServer) -> None:
    (item,) = lists(server.records(["One. Two."], split_sentences=True))
    assert [body["messages"][0]["content"] for body in server.bodies] == ["One.", "Two."]
    one, two = (body["seed"] for body in server.bodies)
    assert one != two
    assert item.texts == (f"One. {one} 0 Two. {two} 0", f"One. {one} 1 Two. {two} 1")
    assert item.logprobs == (-1.5, -1.5)


def test_a_source_that_is_no_text_is_a_bad_record(server: ChatServer) -> None:
    assert "segment 0: lone surrogate" in str(bad(server.records(["half \ud83d"])[0]).error)
    assert not server.bodies


def test_the_only_model_of_a_server_need_not_be_named(server: ChatServer) -> None:
    with server.generator(server_model=None) as generator:
        list(generator.generate(["s", "t"]))
        assert generator.described()["model"] == "only-model"
    assert {body["model"] for body in server.bodies} == {"only-model"}
    assert len(server.headers) == 3


@pytest.mark.parametrize(
    ("models", "kind", "words"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, UsageError, "2 models; choose one with --server-model: a, b"),
        ({"data": []}, ModelError, "lists no model.*--server-model"),
        ({"data": [{"name": "a"}, 3]}, ModelError, "lists no model"),
        (Reply(b"garbage"), ModelError, "the model's name is unknown.*without 'data'.*--server-model"),
        (Reply(status=404), ModelError, "--server-model"),
        (Reply(status=401), ModelError, "OPENAI_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_known_is_asked_for(
    server: ChatServer, models: Any, kind: type[Exception], words: str
) -> None:
    server.models = models
    with pytest.raises(kind, match=words):
        server.generator(server_model=None, retries=1)


@pytest.mark.parametrize("method", ["beam", "epsilon"])
def test_only_samples_come_from_a_server(server: ChatServer, method: Any) -> None:
    with pytest.raises(UsageError, match=f"{method}; give --method sample"):
        ServerGenerator(server.address, Settings(nbest=2, method=method), server_model="m", prompt="{source}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "--concurrency 0"),
        ({"retries": -1}, "--retries -1"),
        ({"timeout": 0.0}, "--timeout 0"),
        ({"timeout": float("nan")}, "--timeout nan"),
        ({"timeout": float("inf")}, "--timeout inf"),
    ],
)
def test_options_out_of_range_are_refused(server: ChatServer, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        server.generator(**options)


def test_an_address_opens_this_back_end_and_may_end_in_a_slash(server: ChatServer) -> None:
    settings = Settings(nbest=1, method="sample")
    with open_generator(settings, model=f"{server.address}/", prompt="{source}", concurrency=2) as generator:
        assert isinstance(generator, ServerGenerator)
        assert lists(list(generator.generate(["s"])))


def test_the_description_holds_what_changes_candidates_and_nothing_else(server: ChatServer) -> None:
    def described(**options: Any) -> dict[str, Any]:
        with server.generator(**options) as generator:
            return generator.described()

    plain = described()
    assert plain == {
        "model": "m",
        "backend": "openai",
        "nbest": 2,
        "method": "sample",
        "max-length": 50,
        "temperature": 1.0,
        "seed": 1,
        "top-k": "server",
        "top-p": "server",
        "prompt": plain["prompt"],
    }
    assert len(bytes.fromhex(plain["prompt"])) == 4
    assert described(concurrency=3, retries=1, timeout=9.0, tgt_lang="unused") == plain
    assert described(prompt="{source}!")["prompt"] != plain["prompt"]
    assert described(prompt="{source} {tgt_lang}", tgt_lang="de")["languages"] == ">de"
    assert described(split_sentences=True)["split"] is True


def test_leaving_early_drops_what_was_not_asked_yet(server: ChatServer) -> None:
    def slow(source: str, asked: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.02)
        return good(source, asked, body)

    server.script = slow
    with server.generator(concurrency=2) as generator:
        for _ in generator.generate(f"s{place}" for place in range(100)):
            break
    assert len(server.bodies) < 12


def test_lists_carry_the_description_as_their_origin(server: ChatServer) -> None:
    with server.generator() as generator:
        items = lists(list(generator.generate(["s", ""])))
        assert [dict(item.origin.settings) if item.origin else None for item in items] == [generator.described()] * 2
