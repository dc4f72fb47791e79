"""Bodies, keys and connections that a service must survive: too large, too slow, packed, broken, silent."""

from __future__ import annotations

import gzip
import hmac
import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, UsageError
from mbr.opening import open_decoder
from mbr.recipe import Recipe
from mbr.serve import limits
from mbr.serve.limits import ApiKeys, check_address
from mbr.serve.settings import Settings
from tests.mbr.serve.conftest import Open, Site, site

pytestmark = pytest.mark.one_world

GOOD = {"source": "A dog.", "candidates": ["Ein Hund.", "Der Hund.", "Hund."]}


@pytest.fixture(scope="module")
def chrf() -> Iterator[Site]:
    """With short limits, for all tests that only send."""
    settings = Settings(header_seconds=0.5, body_seconds=0.5, max_body_bytes=100_000, max_connections=30)
    with site({"chrf": open_decoder(Recipe("chrf"))}, settings=settings) as running:
        yield running


def raw(where: Site, data: bytes = b"", wait: float = 5.0) -> bytes:
    """What comes back for some bytes, until the other side closes or nothing comes for `wait` seconds."""
    with socket.create_connection(("127.0.0.1", where.port), timeout=wait) as connection:
        connection.sendall(data)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except TimeoutError:
            pass
        return received


def test_a_body_of_ten_megabytes_is_refused_unread(chrf: Site) -> None:
    head = b"POST /v1/decode HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n"
    answer = raw(chrf, head)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"error_type":"too_large"' in answer


def test_a_body_in_chunks_is_counted(chrf: Site) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 5000

    assert chrf.http.post("/v1/decode", content=chunks()).status_code == 413
    body = json.dumps(GOOD).encode()
    answer = chrf.http.post("/v1/decode", content=iter([body[:10], body[10:]]))
    assert answer.json()["text"] == "Ein Hund."


def test_a_gzip_bomb_is_refused_and_honest_gzip_is_read(chrf: Site) -> None:
    headers = {"content-encoding": "gzip"}
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    assert chrf.http.post("/v1/decode", content=bomb, headers=headers).status_code == 413
    packed = gzip.compress(json.dumps(GOOD).encode())
    assert chrf.http.post("/v1/decode", content=packed, headers=headers).json()["text"] == "Ein Hund."
    for broken in (packed[:-9], b"no gzip", packed + b"more"):
        assert chrf.http.post("/v1/decode", content=broken, headers=headers).status_code == 400
    assert chrf.http.post("/v1/decode", content=b"x", headers={"content-encoding": "br"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"source": "\xff", "candidates": ["a"]}', 400),
        (b"{", 400),
        (b"[" * 50_000, 400),
        (b'{"a":' * 20_000, 400),
        (b"", 422),
        (b"null", 422),
        (b'{"source": "\\ud800", "candidates": ["a", "b"]}', 422),
        (b'{"source": "a", "candidates": ["\\udfff", "b"]}', 422),
        (b'{"source": "a", "candidates": ["a"], "\\ud800": 1}', 422),
        (b'{"source": "a", "candidates": ["a"], "recipe": "\\ud800"}', 422),
        (b'{"source": "a", "candidates": []}', 422),
        (b'{"source": "a", "candidates": [1]}', 422),
        (b'{"source": "a", "candidates": [{"text": "a", "logprob": NaN}]}', 422),
        (b'{"source": "a", "candidates": [{"text": "a", "logprob": 1e999}]}', 422),
        (b'{"source": "a", "candidates": [{"text": "a", "count": 0}]}', 422),
        (b'{"source": "a", "candidates": ["a"], "surce": "b"}', 422),
        (b'{"source": "a", "candidates": ["a"], "top": 0}', 422),
        (b'{"source": "a", "candidates": ["a"], "id": ' + b"9" * 5000 + b"}", 400),
    ],
)
def test_broken_bodies_are_errors_of_the_client(body: bytes, status: int, chrf: Site) -> None:
    answer = chrf.http.post("/v1/decode", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "error_type", "message"}
    assert chrf.errors == []


def test_an_error_repeats_no_text(chrf: Site) -> None:
    answer = chrf.post("/v1/decode", {"source": "A dog.", "candidates": [{"text": "secret", "count": "many secrets"}]})
    assert answer.status_code == 422
    assert "secret" not in answer.text
    assert "candidates.0" in answer.json()["error"]


def test_nul_and_other_characters_are_content(chrf: Site) -> None:
    texts = ["a\0b c", "a\0b d", "a\u2028b\r\x0c c", "a\ufeffb c"]
    answer = chrf.post("/v1/decode", {"source": "\0", "candidates": texts, "top": 4}).json()
    assert sorted(entry["text"] for entry in answer["ranking"]) == sorted(texts)


@pytest.mark.parametrize(("size", "status"), [(0, 422), (1, 200), (2, 200), (256, 200), (257, 413)])
def test_lists_of_every_size(size: int, status: int, chrf: Site) -> None:
    answer = chrf.post("/v1/decode", {"source": "s", "candidates": [f"text {k}" for k in range(size)]})
    assert answer.status_code == status
    if size == 1:
        assert answer.json()["flags"] == ["single"]
        assert answer.json()["expected_utility"] is None
    if size == 257:
        assert "257 candidates" in answer.json()["error"]


def test_slow_headers_are_cut_off(chrf: Site) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", chrf.port), timeout=5) as connection:
        connection.sendall(b"POST /v1/decode HTTP/1.1\r\nhost: x\r\n")
        answer = b""
        while not answer and time.monotonic() - began < 5:
            connection.settimeout(0.1)
            try:
                connection.sendall(b"x-more: y\r\n")
                answer = connection.recv(1000)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert 0.4 < time.monotonic() - began < 3


def test_silence_is_closed(chrf: Site) -> None:
    began = time.monotonic()
    assert raw(chrf) == b""
    assert 0.4 < time.monotonic() - began < 3


def test_a_slow_body_is_408(chrf: Site) -> None:
    began = time.monotonic()
    answer = raw(chrf, b"POST /v1/decode HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 3


def test_many_silent_connections_leave_room_for_others(chrf: Site) -> None:
    silent = [socket.create_connection(("127.0.0.1", chrf.port)) for _ in range(60)]
    try:
        for _ in range(5):
            assert chrf.client.decode("A dog.", ["Ein Hund.", "Der Hund."]).text == "Ein Hund."
        assert len(chrf.server.server_state.connections) <= 32
    finally:
        for connection in silent:
            connection.close()


@pytest.mark.skipif(shutil.which("slowhttptest") is None, reason="no slowhttptest here; Debian has it")
@pytest.mark.parametrize("kind", [["-H"], ["-B", "-s", "8192"], ["-X", "-w", "1", "-y", "2", "-n", "1", "-z", "1"]])
def test_slowhttptest_does_not_keep_others_out(kind: list[str], chrf: Site) -> None:
    address = f"{chrf.address}/{'page.js' if kind[0] == '-X' else 'v1/decode'}"
    command = ["slowhttptest", *kind, "-c", "120", "-r", "100", "-i", "1", "-l", "3", "-u", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as attack:
        served = 0
        while attack.poll() is None:
            assert chrf.client.decode("A dog.", ["Ein Hund.", "Der Hund."]).text == "Ein Hund."
            served += 1
            time.sleep(0.05)
    assert served > 10


def test_a_second_request_on_a_connection_has_its_time_again(chrf: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", chrf.port, timeout=5)
    connection.connect()
    first = connection.sock
    for _ in range(3):
        connection.request("POST", "/v1/decode", json.dumps(GOOD))
        assert json.loads(connection.getresponse().read())["text"] == "Ein Hund."
        assert connection.sock is first
        time.sleep(0.3)
    connection.close()


def test_json_is_read_whatever_its_content_type(chrf: Site) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"):
        answer = chrf.http.post("/v1/decode", content=json.dumps(GOOD), headers={"content-type": kind})
        assert answer.json()["text"] == "Ein Hund."


@pytest.mark.parametrize("path", ["/nowhere", "/v1/decode/", "/v1"])
def test_other_paths_are_404_in_the_same_shape(path: str, chrf: Site) -> None:
    answer = chrf.http.get(path)
    assert (answer.status_code, answer.json()["error_type"]) == (404, "not_found")
    assert chrf.http.get("/v1/decode").status_code == 405


KEYS = ApiKeys(["first-key", "schlüssel"])


def test_keys_are_asked_for(open_site: Open) -> None:
    where = open_site(keys=KEYS)
    for path in ("/", "/health", "/ready", "/languages", "/openapi.json"):
        assert where.http.get(path).status_code == 200, path
    for path in ("/info", "/metrics", "/v1/models"):
        assert where.http.get(path).status_code == 401, path
    for key in (None, "x", "first-kez", "first-key2", "first-ke"):
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        answer = where.post("/v1/decode", GOOD, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    answer = where.post("/v1/decode", GOOD, headers={"authorization": "bearer first-key"})
    assert answer.status_code == 200
    assert where.post("/translate", {"q": "a", "source": "en", "target": "de"}).status_code == 401
    answer = where.post("/translate", {"q": "a", "source": "en", "target": "de", "api_key": "first-key"})
    assert (answer.status_code, "no translation model" in answer.text) == (422, True)
    answer = where.http.post("/translate", data={"q": "a", "source": "en", "target": "de", "api_key": "schlüssel"})
    assert answer.status_code == 422


@pytest.mark.parametrize("key", ["schlüsse1", "ключ", "\xff\xfe"])
def test_a_key_with_other_letters_is_no_bug(key: str, open_site: Open) -> None:
    where = open_site(keys=KEYS)
    for encoded in {key.encode("utf-8"), key.encode("latin-1", "replace")}:
        answer = where.http.get("/info", headers={b"authorization": b"Bearer " + encoded})
        assert (answer.status_code, "is wrong" in answer.json()["error"]) == (401, True)
    assert "has none" in where.http.get("/info").json()["error"]
    for encoding in ("utf-8", "latin-1"):
        header = b"Bearer " + "schlüssel".encode(encoding)
        assert where.http.get("/info", headers={b"authorization": header}).status_code == 200
    assert where.errors == []


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By construction: every key is compared, whatever the others gave, and only by digests of one length."""
    compared: list[tuple[bytes, bytes]] = []

    real = hmac.compare_digest

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return real(first, second)

    monkeypatch.setattr(limits.hmac, "compare_digest", compare)
    for key, allowed in (("first-key", True), ("schlüssel", True), ("x" * 1000, False), (None, False)):
        compared.clear()
        assert KEYS.allow(key) is allowed
        assert len(compared) == 2
        assert {len(side) for pair in compared for side in pair} == {32}


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n  two \n", encoding="utf-8")
    keys = ApiKeys.read(file)
    assert [keys.allow(key) for key in ("one", "two", "", "one\n")] == [True, True, False, False]
    file.write_text("\n")
    with pytest.raises(InputError, match="no key"):
        ApiKeys.read(file)
    with pytest.raises(InputError, match="cannot be read"):
        ApiKeys.read(tmp_path / "missing")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_an_address_of_others_needs_a_key(host: str) -> None:
    with pytest.raises(UsageError, match="--api-key-file"):
        check_address(host, ApiKeys(), insecure=False)
    check_address(host, KEYS, insecure=False)
    check_address(host, ApiKeys(), insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", "::1"])
def test_this_machine_needs_none(host: str) -> None:
    check_address(host, ApiKeys(), insecure=False)


def test_limits_come_from_the_environment_and_are_checked() -> None:
    assert Settings.from_environment({"MBR_SERVE_TIMEOUT": "2.5", "OTHER": "x"}).timeout == 2.5
    assert Settings.from_environment({"MBR_SERVE_PORTION": "8"}, portion=9).portion == 9
    for environment, message in (
        ({"MBR_SERVE_MAX_CANDIDATES": "many"}, "expected a whole number"),
        ({"MBR_SERVE_MAX_CANDIDATES": "0"}, "--max-candidates 0 is out of range"),
        ({"MBR_SERVE_TIMEOUT": "nan"}, "out of range"),
    ):
        with pytest.raises(UsageError, match=message):
            Settings.from_environment(environment)


def test_a_header_that_is_no_http_is_400(chrf: Site) -> None:
    assert raw(chrf, b"this is not HTTP\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_the_service_is_well_after_all_of_this(chrf: Site) -> None:
    assert chrf.errors == []
    answer: Any = chrf.client.decode("A dog.", ["Ein Hund.", "Der Hund."])
    assert answer.text == "Ein Hund."
    assert chrf.service.scheduler.jobs == 0


def test_small_answers_leave_at_once(chrf: Site) -> None:
    """Without TCP_NODELAY an answer in two parts waits 40 ms for the client's acknowledgement."""
    with socket.create_connection(("127.0.0.1", chrf.port)):
        end = time.monotonic() + 5
        while not (connections := list(chrf.server.server_state.connections)) and time.monotonic() < end:
            time.sleep(0.01)
        (option,) = {
            one.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for one in connections
        }
    assert option
