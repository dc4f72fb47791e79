"""The hub client against a real HTTP server on this machine that speaks the hub's protocol."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from candidates.common.errors import ModelError
from pear.runtime.hub import fetch


class Hub(BaseHTTPRequestHandler):
    """Answers like the hub for repositories that are gated, unknown, or lack a revision."""

    def answer(self) -> None:
        if "gated" in self.path:
            code, kind = 403, "GatedRepo"
        elif "no-revision" in self.path:
            code, kind = 404, "RevisionNotFound"
        else:
            code, kind = 404, "RepoNotFound"
        self.send_response(code)
        self.send_header("X-Error-Code", kind)
        self.send_header("X-Error-Message", "said the hub")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = answer  # noqa: N815 - names that the server looks for

    def log_message(self, *details: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def ask(endpoint: str, repository: str, folder: Path, **more: str) -> str:
    program = (
        "import sys\nfrom pear.runtime.hub import fetch\nfrom candidates.common.errors import ModelError\n"
        "try:\n    fetch(sys.argv[1], revision='main')\nexcept ModelError as exc:\n    print(exc)"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(folder),
        **more,
    }
    command = [sys.executable, "-c", program, repository]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_three_failures_have_three_messages(endpoint: str, tmp_path: Path) -> None:
    assert "owner/gated@main is gated: accept its terms" in ask(endpoint, "owner/gated", tmp_path)
    assert "no such model: owner/unknown@main" in ask(endpoint, "owner/unknown", tmp_path)
    assert "owner/no-revision has no revision 'main'" in ask(endpoint, "owner/no-revision", tmp_path)


def test_offline_and_unreachable_are_told_apart(endpoint: str, tmp_path: Path) -> None:
    offline = ask(endpoint, "owner/model", tmp_path, HF_HUB_OFFLINE="1")
    assert "not in the local cache, and this run is offline" in offline
    unreachable = ask("http://127.0.0.1:9", "owner/model", tmp_path)
    assert "the hub cannot be reached" in unreachable


def test_local_files_only_never_asks_the_hub() -> None:
    with pytest.raises(ModelError, match="Prosho/pear@3cc8b7894f65.*offline"):
        fetch("pear", local_files_only=True)


def test_a_name_that_cannot_be_a_repository() -> None:
    with pytest.raises(ModelError, match="neither an existing local path nor the name of a hub repository"):
        fetch("a/b/c/d")


def test_a_cached_snapshot_is_found_offline(tmp_path: Path) -> None:
    """The cache layout of huggingface_hub: what a machine with a hub has downloaded once."""
    commit = "3cc8b7894f6542fde430cc2a9f96a82fa6a679ff"
    snapshot = tmp_path / "models--Prosho--pear" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "hparams.yaml").write_text("{}\n")
    assert fetch("pear", cache_dir=tmp_path, local_files_only=True) == snapshot
