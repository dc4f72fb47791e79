"""The command as a process: start, signals, reload, kill and restart, and wrong options."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, UsageError
from mbr.cli.serve.command import _translator_runtime, command, parser
from mbr.serve.client import Client, ServiceError
from mbr.serve.served import Words
from mbr.serve.settings import Settings
from tests.conftest import ROOT

LAUNCH = "from tests.mbr.serve.made import serve_with_slow; serve_with_slow()"
SLOW = ("--recipe", "slow={utility: slow}", "--translator", "none", "--port", "0")


class Process:
    """A service in a process of its own; its messages are in `err`."""

    def __init__(self, folder: Path, *options: str, launch: str = LAUNCH, **environment: str) -> None:
        self.err = folder / f"err{time.monotonic_ns()}"
        with self.err.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", launch, *options],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**os.environ, **environment},
            )
        self.address = self.wait_for(r"listening on (http://\S+),")[1]
        self.client = Client(self.address, timeout=30)

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """A message on standard error."""
        end = time.monotonic() + seconds
        while True:
            text = self.err.read_text(encoding="utf-8")
            if match := re.search(pattern, text):
                return match
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.02)

    def ready(self) -> Process:
        self.wait_for("ready: ")
        assert self.client.ready()
        return self

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 30) -> int:
        code = self.process.wait(seconds)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b"", "standard output is for data, and there is none"
        return code


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def call(*options: str, **more: Any) -> Process:
        started.append(Process(tmp_path, *(options or SLOW), **more))
        return started[-1]

    yield call
    for one in started:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


def texts(size: int = 6) -> list[str]:
    return [f"t {k}" for k in range(size)]


def test_sigterm_finishes_what_is_under_way_and_refuses_the_rest(start: Start) -> None:
    process = start().ready()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(process.client.decode, "under way", texts(60))
        while not process.client.info()["queue"]["requests"]:
            time.sleep(0.02)
        process.send(signal.SIGTERM)
        process.wait_for("ending: up to 30 s for 1 request under way")
        assert not process.client.ready()
        with pytest.raises(ServiceError) as caught:
            process.client.decode("new", texts())
        assert (caught.value.status, caught.value.retry_after) == (503, 1)
        assert future.result(30).passes == 1805  # with 2 % of the pairs in both orders
    assert process.end() == 0
    with pytest.raises(ServiceError, match="does not answer"):
        process.client.info()


def test_sigterm_when_idle_ends_at_once(start: Start) -> None:
    process = start().ready()
    began = time.monotonic()
    process.send(signal.SIGTERM)
    assert process.end() == 0
    assert time.monotonic() - began < 10


def test_past_its_limit_what_is_left_gets_503_and_the_process_ends(start: Start) -> None:
    """Even where a model never returns."""
    process = start(*SLOW, "--drain-seconds", "0.2").ready()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(process.client.decode, "stuck", texts())
        while not process.client.info()["queue"]["requests"]:
            time.sleep(0.02)
        process.send(signal.SIGTERM)
        with pytest.raises(ServiceError) as caught:
            future.result(30)
    assert caught.value.status == 503
    assert process.end() == 0
    assert "ended with 1 request unfinished, answered with 503" in process.err.read_text()


def test_a_killed_service_starts_again_on_the_same_port(start: Start) -> None:
    process = start().ready()
    port = process.address.rpartition(":")[2]
    process.send(signal.SIGKILL)
    process.process.wait(30)
    again = start(*SLOW[:-1], port).ready()
    assert again.address == process.address
    assert again.client.decode("s", texts()).passes == 15
    again.send(signal.SIGINT)
    assert again.end() == 130


def test_sighup_reads_the_recipes_again_and_drops_nothing(start: Start, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("utility: slow\nstrategy: half\n")
    process = start("--recipe", f"mine={recipe}", "--translator", "none", "--port", "0").ready()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(process.client.decode, "under way", texts(60))
        while not process.client.info()["queue"]["requests"]:
            time.sleep(0.02)
        recipe.write_text("utility: chrf\n")
        process.send(signal.SIGHUP)
        process.wait_for("reloaded: mine")
        assert "utility:chrf" in process.client.decode("s", texts(), recipe="mine").signature
        assert "utility:slow" in future.result(30).signature
    recipe.write_text("utility: nothing like this\n")
    process.send(signal.SIGHUP)
    process.wait_for("not reloaded, the recipes are the old ones: utility 'nothing like this' is unknown")
    assert "utility:chrf" in process.client.decode("s", texts()).signature
    process.send(signal.SIGTERM)
    assert process.end() == 0


def test_sighup_while_models_are_loaded_reads_the_recipes_after_that(start: Start, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("utility: slow\n")
    launch = LAUNCH.replace("serve_with_slow()", "serve_with_slow(loading_seconds=2)")
    process = start("--recipe", f"mine={recipe}", "--translator", "none", "--port", "0", launch=launch)
    time.sleep(0.5)
    process.send(signal.SIGHUP)
    time.sleep(0.2)
    assert process.client.info()["state"] == "starting"
    recipe.write_text("utility: chrf\n")
    process.wait_for("reloaded: mine")
    assert "utility:chrf" in process.client.decode("s", texts(), recipe="mine").signature


def test_without_options_the_bundled_models_are_served(start: Start) -> None:
    """It listens before it is ready; limits come from the environment, and the log holds no texts."""
    launch = "from candidates.command.launch import mbr_serve; mbr_serve()"
    process = start("--port", "0", launch=launch, MBR_SERVE_NBEST="5", MBR_SERVE_ON_ERROR="fallback")
    assert process.client.get("/health") == {"status": "ok"}
    with pytest.raises(ServiceError, match="503"):
        process.client.translate("A dog runs.")
    process.ready()
    choice = process.client.translate("A dog runs.", return_candidates=True)
    assert (choice.text, len(choice.raw["candidates"])) == ("Ein Hund läuft.", 5)
    info = process.client.info()
    assert (info["limits"]["nbest"], info["on_error"]) == (5, "fallback")
    assert list(info["recipes"]) == ["default", "translations", "chrf", "chrf++", "bleu"]
    process.send(signal.SIGTERM)
    assert process.end() == 0
    lines = [json.loads(line) for line in process.err.read_text().splitlines() if line.startswith("{")]
    assert lines[-1]["event"] == "request"
    assert "Hund" not in process.err.read_text()


def test_a_model_that_cannot_be_loaded_ends_the_process_with_its_exit_code(start: Start, tmp_path: Path) -> None:
    recipe = f"{{utility: pear, options: {{model: {tmp_path / 'missing'}}}}}"
    process = start("--recipe", recipe, "--translator", "none", "--port", "0")
    assert process.end(60) == 4
    assert "missing" in process.err.read_text()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--host", "0.0.0.0"], UsageError, "--api-key-file"),
        (["--port", "70000"], UsageError, "--port 70000 is out of range"),
        (["--max-candidates", "0"], UsageError, "--max-candidates 0 is out of range"),
        (["--api-key-file", "/nowhere/keys"], InputError, "cannot be read"),
        (["--recipe", "nothing"], UsageError, "recipe 'nothing' is unknown"),
        (["--recipe", "a={utility: chrf}", "--recipe", "a={utility: bleu}"], UsageError, "is there twice"),
        (["--recipe", "chrf={utility: chrf}"], UsageError, "that of a utility"),
        (["--host", "203.0.113.1", "--without-key"], InputError, "203.0.113.1:8080 cannot be used"),
        (["--workers-per-device", "0"], UsageError, "--workers-per-device 0 is out of range"),
        (["--timeout", "inf"], UsageError, "--timeout inf is out of range; expected a finite number"),
        (["--timeout", "nan"], UsageError, "--timeout nan is out of range; expected a finite number"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(
    options: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        command(options)


def test_the_translator_runs_on_the_first_device(monkeypatch: pytest.MonkeyPatch) -> None:
    options = parser().parse_args(["--device", "cuda:1,cuda:2", "--threads", "3"])
    assert _translator_runtime(options) == {"device": "cuda:1", "threads": 3}
    options.translator = "http://127.0.0.1:1/v1"  # runs elsewhere
    assert "device" not in _translator_runtime(options)


def test_recipes_have_names() -> None:
    words = Words.parse(["fast={utility: chrf}", "folder/good.yaml", "en-de", "{utility: bleu}"])
    assert dict(words.recipes) == {
        "fast": "{utility: chrf}",
        "good": "folder/good.yaml",
        "en-de": "en-de",
        "default": "{utility: bleu}",
    }


def test_environment_variables_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.from_environment({f"MBR_SERVE_{limit.name.upper()}": "2" for limit in fields(Settings)})
    assert set(settings.described().values()) == {2}
    assert "workers_per_device" in settings.described()
    monkeypatch.setenv("MBR_SERVE_PORT", "http")
    with pytest.raises(UsageError, match="MBR_SERVE_PORT is 'http'"):
        command([])
    monkeypatch.setenv("MBR_SERVE_PORT", "8080")
    monkeypatch.setenv("MBR_SERVE_ON_ERROR", "ignore")
    with pytest.raises(UsageError, match="expected stop or fallback"):
        command([])
