"""The client against a server that fails: retries, waits, refusals, keys, certificates, closing."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from candidates.backends.openai.generator import ServerGenerator
from candidates.chat import client
from candidates.common.errors import ModelError, UsageError
from candidates.generation import Settings
from tests.support.chat_server import ChatServer, Handler, Reply, bad, first, good, lists

pytestmark = pytest.mark.one_world


KEY = "sk-very-secret-0123456789"


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
    assert message.startswith(f"segment 1: no answer from {server.address} in 3 attempts, the last error: ")
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
    monkeypatch.setattr(client, "LONGEST_RETRY_AFTER", 0.01)
    server.script = first(Reply(status=503, headers={"Retry-After": seconds}))
    assert lists(server.records(["s"]))


def test_waits_double_up_to_their_limit(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout or 0)
        return False

    monkeypatch.setattr(client, "BACK_OFF", 0.5)
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
        (Reply(status=307, headers={"Location": "http://elsewhere/v1"}), "redirects to http://elsewhere/v1"),
        (Reply(status=302), "redirects to nowhere"),
    ],
)
def test_a_wrong_key_address_or_model_ends_the_run(server: ChatServer, reply: Reply, words: str) -> None:
    server.script = lambda source, asked, body: reply
    with pytest.raises(ModelError, match=words):
        server.records(["s"])
    assert server.asked["s"] == 1


def test_an_answer_without_end_is_not_read_to_its_end(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER", 2**20)
    server.script = lambda source, asked, body: Reply(b" " * (3 << 20))
    assert "more than 1 MB" in str(bad(server.records(["s"])[0]).error)


def test_the_key_is_sent_and_never_shown(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client.KEY_VARIABLE, f"{KEY}\n")
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
    monkeypatch.setenv(client.KEY_VARIABLE, " ")
    server.records(["s"])
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ä", "sk-\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(client.KEY_VARIABLE, key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        server.generator()
    assert "sk-" not in str(caught.value)


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
