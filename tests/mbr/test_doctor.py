from __future__ import annotations

import re
import socket

import pytest

from mbr.cli.doctor import command
from mbr.recipe import shipped_recipes
from tests.conftest import Run


def test_a_sound_installation(run: Run) -> None:
    result = run("mbr-doctor")
    assert result.returncode == 0, result.stdout
    for word in (
        "mbr-decode",
        "torch",
        "transformers",
        "cpu",
        "hub models",
        "offline",
        "chrf",
        "all is well",
    ):
        assert word in result.stdout
    assert "yes (HF_HUB_OFFLINE)" in result.stdout
    assert "not asked (HF_HUB_OFFLINE)" in result.stdout


def test_what_is_bundled_is_listed_with_the_option_that_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command([]) == 0
    out = capsys.readouterr().out
    sections = out.partition("bundled translation models\n")[2]
    assert "en-de" in sections.partition("bundled PEARs\n")[0]
    assert "--translator en-de" in sections
    assert "--model en-de" in sections.partition("bundled PEARs\n")[2]
    assert set(shipped_recipes()) <= set(sections.partition("bundled recipes\n")[2].split())


def test_a_hub_that_does_not_answer_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert command([]) == 0
    assert "http://127.0.0.1:9  does not answer" in capsys.readouterr().out
    with socket.create_server(("127.0.0.1", 0)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.getsockname()[1]}")
        assert command([]) == 0
    assert re.search(r"http://127.0.0.1:\d+  answers\n", capsys.readouterr().out)
