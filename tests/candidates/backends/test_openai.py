"""The back-end for chat servers, against a real server in this process that does what each test tells it to."""

from __future__ import annotations

import json
import random
import shutil
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from candidates import BadRecord, CandidateList, Record
from candidates.backends import openai as llm
from candidates.backends.openai import ServerGenerator
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.generation import Settings, open_generator

pytestmark = pytest.mark.one_world

KEY = "sk-very-secret-0123456789"


@dataclass
class Reply:
    """An answer; a body that is not bytes is sent as JSON. `close` and `hang` are the two ways to give none."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False
    hang: bool = False


Script = Callable[[str, int, dict[str, Any]], Reply]


def choice(text: Any, *, logprobs: list[Any] | None = None, finish: str = "stop") -> dict[str, Any]:
    content = None if logprobs is None else {"content": [{"token": "t", "logprob": value} for value in logprobs]}
    return {"message": {"role": "assistant", "content": text}, "logprobs": content, "finish_reason": finish}


def good(source: str, asked: int, body: dict[str, Any]) -> Reply:
    """As many choices as were asked for; texts follow from the seed, as on a server that honours it."""
    texts = [f"{source} {body['seed']} {place}" for place in range(body["n"])]
    return Reply({"choices": [choice(text, logprobs=[-0.5, -0.25]) for text in texts]})


class ChatServer(ThreadingHTTPServer):
    """Answers as `script(source, times this source was asked before, body)` says, and remembers what it was asked."""

    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        self.script: Script = good
        self.models: Any = {"data": [{"id": "only-model"}]}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.ending = threading.Event()

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/v1"

    def generator(self, nbest: int = 2, seed: int = 1, **options: Any) -> ServerGenerator:
        settings = Settings(nbest=nbest, method="sample", seed=seed, max_length=50)
        return ServerGenerator(self.address, settings, **{"server_model": "m", "prompt": "{source}"} | options)

    def records(self, sources: list[str], **options: Any) -> list[Record]:
        with self.generator(**options) as generator:
            return list(generator.generate(sources))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        assert self.path == "/v1/models"
        models = self.server.models
        self.reply(models if isinstance(models, Reply) else Reply(models))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        source = body["messages"][0]["content"]
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.headers.append(dict(self.headers))
            asked = self.server.asked[source]
            self.server.asked[source] += 1
        assert self.path == "/v1/chat/completions"
        self.reply(self.server.script(source, asked, body))

    def reply(self, reply: Reply) -> None:
        if reply.hang:
            self.server.ending.wait(5)
        if reply.hang or reply.close:
            self.close_connection = True
            return
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in ({"Content-Length": str(len(content))} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(llm, "BACK_OFF", 0.001)
    monkeypatch.delenv(llm.KEY_VARIABLE, raising=False)
    with ChatServer() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.005,))
        thread.start()
        yield served
        served.ending.set()
        served.shutdown()
        thread.join()


def lists(records: list[Record]) -> list[CandidateList]:
    assert all(isinstance(record, CandidateList) for record in records), records
    return [record for record in records if isinstance(record, CandidateList)]


def bad(record: Record) -> BadRecord:
    assert isinstance(record, BadRecord), record
    assert isinstance(record.error, InputError)
    return record


def first(*replies: Reply) -> Script:
    """These replies in turn, then good ones."""
    return lambda source, asked, body: replies[asked] if asked < len(replies) else good(source, asked, body)


# What is asked, and what is made of the answer.


def test_choices_become_candidates_with_the_sum_of_their_logprobs(server: ChatServer) -> None:
    (item,) = lists(server.records(["A dog."], nbest=3))
    seed = server.bodies[0]["seed"]
    assert (item.id, item.source) == (0, "A dog.")
    assert item.texts == tuple(f"A dog. {seed} {place}" for place in range(3))
    assert item.logprobs == (-0.75,) * 3


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


def test_equal_texts_are_draws_and_count(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x"), choice("y"), choice("x")]})
    (item,) = lists(server.records(["s"], nbest=3))
    assert (item.texts, item.counts, item.logprobs) == (("x", "y"), (2, 1), None)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([-1.0, -2.5], -3.5),
        ([-1, 0], -1.0),
        (None, None),
        ([], None),
        ([-1.0, None], None),
        ([-1.0, float("nan")], None),
        ([-1.0, float("-inf")], None),
        ([-(10**400)], None),
        ([-1.0, "-2"], None),
        ([True], None),
    ],
)
def test_a_logprob_is_the_sum_over_the_tokens_or_unknown(
    server: ChatServer, logprobs: list[Any] | None, expected: float | None
) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x", logprobs=logprobs)]})
    (item,) = lists(server.records(["s"], nbest=1))
    assert item.logprobs == (None if expected is None else (expected,))


@pytest.mark.parametrize("logprobs", ["x", {"content": "x"}, {"content": [3]}, [1]])
def test_logprobs_of_another_shape_are_unknown(server: ChatServer, logprobs: Any) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x") | {"logprobs": logprobs}]})
    assert lists(server.records(["s"], nbest=1))[0].logprobs is None


def test_candidates_cut_off_by_the_length_limit_are_counted(server: ChatServer) -> None:
    choices = [choice("x", finish="length"), choice("y"), choice("z", finish="length")]
    server.script = lambda source, asked, body: Reply({"choices": choices})
    with server.generator(nbest=3) as generator:
        list(generator.generate(["s", "t"]))
        assert generator.cut_off == 4


def test_white_space_around_a_text_goes_and_inside_stays(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("\n Ein\n Hund. \n")]})
    assert lists(server.records(["s"], nbest=1))[0].texts == ("Ein\n Hund.",)


# Fewer choices than asked for.


def test_a_server_that_ignores_n_is_asked_until_all_are_there(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice(f"{source}{asked}")]})
    with server.generator(nbest=5) as generator:
        (item,) = lists(list(generator.generate(["s"])))
        assert not generator.notices
    assert item.texts == ("s0", "s1", "s2", "s3", "s4")
    assert [body["n"] for body in server.bodies] == [5, 4, 3, 2, 1]
    assert len({body["seed"] for body in server.bodies}) == 5


def test_choices_beyond_n_are_left_out(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice(str(place)) for place in range(9)]})
    assert lists(server.records(["s"], nbest=2))[0].texts == ("0", "1")


def test_no_request_asks_for_more_choices_than_servers_give(server: ChatServer) -> None:
    (item,) = lists(server.records(["s"], nbest=300))
    assert [body["n"] for body in server.bodies] == [128, 128, 44]
    assert len(item) == 300


@pytest.mark.parametrize(
    "useless",
    [
        choice(None),
        choice(""),
        choice(" \n"),
        choice(3),
        choice(["x"]),
        choice("half \ud83d"),
        {},
        {"message": None},
        {"message": "x"},
        "x",
        None,
    ],
)
def test_a_choice_without_text_is_asked_for_again(server: ChatServer, useless: Any) -> None:
    server.script = first(Reply({"choices": [choice("x"), useless]}))
    (item,) = lists(server.records(["s"]))
    assert [body["n"] for body in server.bodies] == [2, 1]
    assert (len(item), item.texts[0]) == (2, "x")


def test_a_list_that_stays_short_is_kept_with_a_notice(server: ChatServer) -> None:
    def script(source: str, asked: int, body: dict[str, Any]) -> Reply:
        return Reply({"choices": [choice(f"x{asked}"), choice("")] if asked < 3 else [choice("")]})

    server.script = script
    with server.generator(nbest=10) as generator:
        *_, item = lists(list(generator.generate(["", "", "", "s"])))
        assert item.texts == ("x0", "x1", "x2")
        (notice,) = generator.notices
    assert notice.startswith("segment 3: 3 of 10 candidates;")


@pytest.mark.parametrize("choices", [[], [choice(None, finish="length")]])
def test_a_segment_without_any_text_is_a_bad_record(server: ChatServer, choices: list[Any]) -> None:
    server.script = lambda source, asked, body: Reply({"choices": choices})
    record = bad(server.records(["s"])[0])
    assert (record.id, record.source) == (0, "s")
    assert "segment 0: none of 2 candidates" in str(record.error)


# Order, places, seeds.


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


# Failures.

FAILURES = {
    "a limit": (Reply(status=429, headers={"Retry-After": "0"}), "HTTP 429"),
    "a limit with a date": (Reply(status=429, headers={"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}), "HTTP 429"),
    "a time-out there": (Reply(status=408), "HTTP 408"),
    "a conflict": (Reply(status=409), "HTTP 409"),
    "an error": (Reply({"error": {"message": "CUDA is  unwell"}}, status=500), "HTTP 500: CUDA is unwell"),
    "an error as text": (Reply(b"<p>Bad gateway</p>", status=502), "HTTP 502: <p>Bad gateway</p>"),
    "garbage": (Reply(b"<html>not JSON</html>"), "without 'choices': <html>"),
    "broken UTF-8": (Reply(b'{"choices": ["\xff"]}'), "without 'choices'"),
    "deep JSON": (Reply(b"[" * 100_000), "without 'choices'"),
    "an empty body": (Reply(b""), "without 'choices'"),
    "another object": (Reply({"error": {"message": "overloaded"}}), "without 'choices': overloaded"),
    "a list": (Reply([1]), "without 'choices'"),
    "no list": (Reply({"choices": None}), "whose 'choices' is no list"),
    "half an answer": (Reply(b'{"choices": [', headers={"Content-Length": "500", "Connection": "close"}), "without"),
    "a closed connection": (Reply(close=True), "closed connection"),
    "a status of nonsense": (Reply(status=10**6), "000000"),
}


@pytest.mark.parametrize("reply", [reply for reply, _ in FAILURES.values()], ids=FAILURES)
def test_what_may_pass_is_tried_again(server: ChatServer, reply: Reply) -> None:
    server.script = first(reply, reply)
    assert len(lists(server.records(["s"]))[0]) == 2
    assert server.asked["s"] == 3


@pytest.mark.parametrize(("reply", "words"), FAILURES.values(), ids=FAILURES)
def test_what_does_not_pass_is_one_bad_record_between_its_neighbours(
    server: ChatServer, reply: Reply, words: str
) -> None:
    server.script = lambda source, asked, body: reply if source == "b" else good(source, asked, body)
    before, record, after = server.records(["a", "b", "c"], retries=2)
    assert [item.texts[0][0] for item in lists([before, after])] == ["a", "c"]
    assert (bad(record).id, bad(record).source) == (1, "b")
    message = str(bad(record).error)
    assert message.startswith(f"segment 1: no answer from {server.address} in 3 tries, the last one: ")
    assert words in message
    assert server.asked["b"] == 3


def test_an_answer_that_does_not_come_is_tried_again(server: ChatServer) -> None:
    server.script = first(Reply(hang=True))
    assert lists(server.records(["s"], timeout=1.5))
    server.script = lambda source, asked, body: Reply(hang=True)
    assert "timed out" in str(bad(server.records(["t"], timeout=0.1, retries=1)[0]).error)


def test_an_answer_that_trickles_in_is_a_time_out_too(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def trickle(self: Handler, reply: Reply) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.ending.wait(0.05):
            self.wfile.write(b" ")

    monkeypatch.setattr(Handler, "reply", trickle)
    record = bad(server.records(["s"], timeout=2, retries=0)[0])
    assert "timed out while the answer was still coming" in str(record.error)


def test_nothing_at_the_address_makes_bad_records(server: ChatServer) -> None:
    with ChatServer() as other:
        address = other.address
    settings = Settings(nbest=1, method="sample")
    with ServerGenerator(address, settings, server_model="m", prompt="{source}", retries=1) as generator:
        records = list(generator.generate(["s", "t"]))
    assert ["Connection refused" in str(bad(record).error) for record in records] == [True, True]


def test_a_wait_that_the_server_asks_for_is_waited(server: ChatServer) -> None:
    server.script = first(Reply(status=503, headers={"Retry-After": "0.3"}))
    began = time.monotonic()
    assert lists(server.records(["s"]))
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("seconds", ["1000000", "9" * 5000])
def test_a_server_cannot_ask_for_an_endless_wait(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setattr(llm, "LONGEST_RETRY_AFTER", 0.01)
    server.script = first(Reply(status=503, headers={"Retry-After": seconds}))
    assert lists(server.records(["s"]))


def test_waits_double_up_to_their_limit(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout or 0)
        return False

    monkeypatch.setattr(llm, "BACK_OFF", 0.5)
    server.script = lambda source, asked, body: Reply(status=500)
    with server.generator(retries=9) as generator, monkeypatch.context() as patch:
        patch.setattr(generator._server, "_closing", type("Event", (threading.Event,), {"wait": wait})())
        bad(generator._record(0, "s"))
    for waited, longest in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert longest / 2 <= waited <= longest


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_one_bad_record_and_not_tried_again(server: ChatServer, status: int) -> None:
    refusal = Reply({"object": "error", "message": "too long: " + "x" * 500}, status=status)
    server.script = lambda source, asked, body: refusal if source == "b" else good(source, asked, body)
    before, record, after = server.records(["a", "b", "c"])
    assert lists([before, after])
    message = str(bad(record).error)
    assert f"refused the request: HTTP {status}: too long: xxx" in message
    assert len(message) < 500
    assert server.asked["b"] == 1


@pytest.mark.parametrize(
    "body", [{"error": "no"}, {"error": {"message": "no"}}, {"message": "no"}, {"detail": "no"}, b"no", b'"no"']
)
def test_the_servers_own_words_are_found_where_servers_put_them(server: ChatServer, body: Any) -> None:
    server.script = lambda source, asked, _: Reply(body, status=400)
    assert "HTTP 400: no;" in str(bad(server.records(["s"])[0]).error)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401), "OPENAI_API_KEY, which is not set"),
        (Reply(status=403), "OPENAI_API_KEY"),
        (Reply({"error": {"message": "The model `m` does not exist."}}, status=404), "does not exist.*--server-model"),
        (Reply(status=307, headers={"Location": "http://elsewhere/v1"}), "sends us on to http://elsewhere/v1"),
        (Reply(status=302), "sends us on to nowhere"),
    ],
)
def test_a_wrong_key_address_or_model_ends_the_run(server: ChatServer, reply: Reply, words: str) -> None:
    server.script = lambda source, asked, body: reply
    with pytest.raises(ModelError, match=words):
        server.records(["s"])
    assert server.asked["s"] == 1


def test_an_answer_without_end_is_not_read_to_its_end(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "_LARGEST_ANSWER", 2**20)
    server.script = lambda source, asked, body: Reply(b" " * (3 << 20))
    assert "more than 1 MB" in str(bad(server.records(["s"])[0]).error)


def test_a_source_that_is_no_text_is_a_bad_record(server: ChatServer) -> None:
    assert "segment 0: lone surrogate" in str(bad(server.records(["half \ud83d"])[0]).error)
    assert not server.bodies


# The key.


def test_the_key_is_sent_and_never_shown(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(llm.KEY_VARIABLE, f"{KEY}\n")
    said = {"error": {"message": f"{'long ' * 38} wrong key {KEY}, Bearer {KEY}"}}
    messages = []
    for status in (400, 500, 200):
        server.script = lambda source, asked, body, status=status: Reply(said, status=status)  # type: ignore[misc]
        messages.append(str(bad(server.records(["s"], retries=0)[0]).error))
    for status in (401, 403, 404, 302):
        server.script = lambda source, asked, body, status=status: Reply(said, status=status)  # type: ignore[misc]
        with pytest.raises(ModelError) as caught:
            server.records(["s"])
        messages.append(str(caught.value))
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert not any("sk-" in message for message in messages)
    assert any("which is set" in message for message in messages)
    with server.generator() as generator:
        assert KEY not in f"{generator.described()}{vars(generator)}"


def test_without_a_key_none_is_sent(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(llm.KEY_VARIABLE, " ")
    server.records(["s"])
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ä", "sk-\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(llm.KEY_VARIABLE, key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        server.generator()
    assert "sk-" not in str(caught.value)


# The model's name, the prompt, the options.


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
        (Reply(b"garbage"), ModelError, "cannot learn the model's name.*without 'data'.*--server-model"),
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


def prompts(server: ChatServer) -> list[str]:
    return [body["messages"][0]["content"] for body in server.bodies]


def test_the_prompt_holds_source_and_languages_and_asks_for_nothing_else(server: ChatServer) -> None:
    server.records(["A dog."], prompt=None, src_lang="English", tgt_lang="German")
    (prompt,) = prompts(server)
    assert "from English to German" in prompt
    assert "translation only" in prompt
    assert prompt.endswith("\n\nA dog.")


def test_braces_in_source_template_and_language_are_text(server: ChatServer) -> None:
    template = 'Like {"a": {1}, {}} or { x }, %s, \\1: {tgt_lang}: {source}|{source}'
    source = "{source} {tgt_lang} {0} {x} \\g<0> {{"
    server.records([source], prompt=template, tgt_lang="{source}")
    assert prompts(server) == [f'Like {{"a": {{1}}, {{}}}} or {{ x }}, %s, \\1: {{source}}: {source}|{source}']


def test_a_template_can_come_from_a_file(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes("\ufeffÜbersetze:\r\n{source}\n".encode())
    server.records(["s"], prompt=f"@{path}")
    assert prompts(server) == ["Übersetze:\r\ns"]
    with pytest.raises(InputError, match="cannot be read"):
        server.generator(prompt=f"@{tmp_path / 'missing'}")


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        (None, {}, "--src-lang"),
        (None, {"src_lang": "English"}, "--tgt-lang"),
        (None, {"src_lang": "English", "tgt_lang": ""}, "--tgt-lang"),
        ("To {tgt_lang}: {source}", {"src_lang": "English"}, "--tgt-lang"),
        ("Translate", {}, "no {source}"),
        ("", {}, "no {source}"),
        ("{source} {target_lang}", {}, "place {target_lang}"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused_at_once(
    server: ChatServer, prompt: str | None, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        server.generator(prompt=prompt, **options)


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


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8000/v1",
        "ftp://h/v1",
        "http://",
        "http://h:x/v1",
        "http://h:99999/v1",
        "http://h:0/v1",
        "http://a..b/v1",
        "http://[::1/v1",
        "http://h/v 1",
        "http://h/v1\n",
        "http://hö/v1",
        "http://me:hidden@h/v1",
        "http://h/v1?key=hidden",
        "http://h/v1#hidden",
    ],
)
def test_an_address_that_is_none_is_refused_without_repeating_secrets(address: str) -> None:
    with pytest.raises(UsageError, match="http://localhost:8000/v1") as caught:
        ServerGenerator(address, Settings(nbest=1, method="sample"), server_model="m", prompt="{source}")
    assert "hidden" not in str(caught.value)


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


# The end.


@pytest.mark.parametrize("reply", [Reply(status=503, headers={"Retry-After": "60"}), Reply(hang=True)])
def test_closing_waits_neither_for_a_back_off_nor_for_an_answer(server: ChatServer, reply: Reply) -> None:
    server.script = lambda source, asked, body: reply
    generator = server.generator(concurrency=2)
    with ThreadPoolExecutor(1) as other:
        running = other.submit(list, generator.generate(["a", "b", "c", "d"]))
        patience = time.monotonic() + 5
        while len(server.bodies) < 2 and time.monotonic() < patience:
            time.sleep(0.005)
        time.sleep(0.05)  # until the answers are read, too
        began = time.monotonic()
        generator.close()
        assert time.monotonic() - began < 10
        with pytest.raises(UsageError, match="closed"):
            running.result(10)
    assert len(server.bodies) == 2


def test_leaving_early_drops_what_was_not_asked_yet(server: ChatServer) -> None:
    def slow(source: str, asked: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.02)
        return good(source, asked, body)

    server.script = slow
    with server.generator(concurrency=2) as generator:
        for _ in generator.generate(f"s{place}" for place in range(100)):
            break
    assert len(server.bodies) < 12


def test_https_trusts_whom_the_system_trusts_and_nobody_else(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate")
    names = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 {names}"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.scheme = "https"
    with pytest.raises(ModelError, match="certificate is not trusted.*SSL_CERT_FILE"):
        server.records(["s"])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert lists(server.records(["s"]))
