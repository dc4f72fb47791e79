"""Commands in processes that have the heavy libraries already: `python tests/support/warm.py FD`, by `WarmRunner`.

Importing torch and transformers costs a command five seconds of processor time, and most tests of commands are not
about that. Here one process imports them (and nothing of ours) and forks for every command; the child runs the
installed script itself, with files of its own for standard input, output and error, and ends as any process does.
What a child does not have of its own: a first import of those libraries, what they read from the environment then
(tests that change it use `run`), and Python's seed for hashes (of two runs that must agree, let one be of `run`).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "transformers", "ctranslate2", "sentencepiece", "yaml", "sacrebleu", "tqdm")
# transformers imports these only when they are asked for.
CLASSES = ("AutoConfig", "AutoModel", "AutoTokenizer", "PreTrainedTokenizerFast", "XLMRobertaModel")
LONGEST = 100_000


class WarmRunner:
    """Runs our commands, one at a time."""

    def __init__(self) -> None:
        self.server: subprocess.Popen[bytes] | None = None
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def run(
        self, words: list[str], stdin: bytes, cwd: Path, conditions: Sequence[str] = ()
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and errors of a command.

        Args:
            words: the script and its options.
            stdin: what it reads.
            cwd: where it runs.
            conditions: `closed` (standard output is), `full` (standard output is on a full disk), `bound` (root too is
                bound by the permissions of files).
        """
        if self.server is None:
            command = [sys.executable, __file__, str(self.theirs.fileno())]
            self.server = subprocess.Popen(command, pass_fds=[self.theirs.fileno()], stdin=subprocess.DEVNULL)
            self.theirs.close()
        with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin_file.write(stdin)
            stdin_file.seek(0)
            files = [stdin_file.fileno(), out.fileno(), err.fileno()]
            request = json.dumps([words, str(cwd), dict(os.environ), list(conditions)]).encode()
            socket.send_fds(self.ours, [request], files)
            code = self.ours.recv(LONGEST)
            assert code, "the process that runs commands has ended"
            for file in (out, err):
                file.seek(0)
            return int(code), out.read(), err.read()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()
        if self.server is not None:
            self.server.wait()


def serve(requests: socket.socket) -> list[str]:
    """Fork for each request; returns in the child, with the words of its command."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, LONGEST, 3)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            requests.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            words, cwd, environment, conditions = json.loads(message)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            _establish(conditions)
            return list(words)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _establish(conditions: list[str]) -> None:
    if "closed" in conditions:
        os.close(1)
        sys.stdout = sys.__stdout__ = None  # type: ignore[assignment,misc]
    if "full" in conditions:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    if "bound" in conditions and os.geteuid() == 0:
        # Version 3 of the call: effective, permitted and inheritable capabilities, in two halves; none is left.
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, none) == 0


def _import_libraries() -> None:
    loaded: dict[str, Any] = {name: importlib.import_module(name) for name in LIBRARIES}
    for name in CLASSES:
        getattr(loaded["transformers"], name)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as for an installed script: tests/mbr is not the mbr of a command
    _import_libraries()
    gc.collect()
    gc.freeze()
    sys.argv = serve(socket.socket(fileno=int(sys.argv[1])))
    importlib.import_module("numpy").random.seed()
    runpy.run_path(sys.argv[0], run_name="__main__")
