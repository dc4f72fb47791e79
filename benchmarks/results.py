"""The quick set: some benchmarks at a small size, one after another, and their results on one page.

    python -m benchmarks.results      # as `make bench` does; about a quarter of an hour on two idle cores

Makes benchmarks/RESULTS.md. The page has date, machine and versions; then for each benchmark what it proves, its
command, its headlines (ratios against the peer in the same run, median and range over repeats) and its table. Each has
a process of its own. For one that fails, because it broke or because what it should prove did not hold, the page has
the reason; the others continue, and the exit code is 1. One whose data is missing is not run, and the page has a line
about it. The first run also builds the environments of the peers.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from benchmarks.support.headlines import MARK
from benchmarks.support.peers import PEERS, environment, version
from benchmarks.support.places import DATA, ROOT, TATOEBA, WMT23
from candidates.common.text import atomic_output

PACKAGES = ("mbr-decode", "torch", "transformers", "numpy", "ctranslate2", "sacrebleu", "scipy")
LONG = 40  # lines of a table that the page folds


@dataclass(frozen=True)
class Quick:
    """A benchmark of the set, at a size that takes a minute or two."""

    name: str
    arguments: str = ""
    peer: str | None = None  # whose environment it needs
    data: Path | None = None

    @property
    def command(self) -> str:
        return f"python -m benchmarks.{self.name} {self.arguments}".rstrip()


# In the order of the table in benchmarks/__init__.py.
QUICK = (
    Quick("parity_pear_mt", peer="pear-mt"),
    Quick("evaluate_wmt23", "--judges chrf bleu", data=WMT23),
    Quick("speed_pear", "--quick", peer="pear-mt"),
    Quick("speed_strategies", "--only pear-mt --lists 3", peer="pear-mt", data=TATOEBA),
    Quick("speed_utilities", "--quick", peer="mbrs", data=TATOEBA),
    Quick("cold_start", "--quick --repeats 1", peer="pear-mt", data=TATOEBA),
    Quick("speed_metaeval", "--no-spa --repeats 3"),
    Quick("stream_latency", "--repeats 1"),
    Quick("stream_memory", "--lists 1000 5000 --sentences 2000 10000"),
    Quick("strategies", "--quick"),
    Quick("compare", "--quick", data=TATOEBA),
)


@dataclass(frozen=True)
class Result:
    """The output of a benchmark; `trouble` has the reason why there is none, or what is wrong with it."""

    quick: Quick
    began: datetime
    seconds: float = 0.0
    headlines: list[str] = field(default_factory=list)
    table: str = ""
    trouble: str = ""
    failed: bool = False


def main() -> int:
    machine = about()
    results = [run(quick) for quick in QUICK]
    target = ROOT / "benchmarks" / "RESULTS.md"
    with atomic_output(target, force=True) as stream:
        stream.write(page(machine, results).encode())
    print(f"wrote {target.relative_to(ROOT)}", file=sys.stderr)
    return int(any(result.failed for result in results))


def run(quick: Quick) -> Result:
    """Run a benchmark of the set; its output also goes to standard error as it comes."""
    began = datetime.now(UTC)
    print(f"\n$ {quick.command}", file=sys.stderr, flush=True)
    if quick.data and not quick.data.exists():
        missing = quick.data.relative_to(DATA)
        return Result(quick, began, trouble=f"**not run**: there is no {missing} in ../shared/data or $MBR_DATA")
    if quick.peer:
        try:
            environment(quick.peer)
        except subprocess.CalledProcessError as error:
            trouble = f"**failed**: no environment for {quick.peer} ({clean(str(error))})"
            return Result(quick, began, trouble=trouble, failed=True)
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{quick.name}", *quick.arguments.split()],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        listener = threading.Thread(target=gather, args=(process.stderr, errors))
        listener.start()
        lines: list[str] = []
        gather(process.stdout, lines)
        listener.join()
    trouble = ""
    if process.returncode:
        broken = process.returncode != 1 or any(line.startswith("Traceback") for line in errors)
        reason = (errors or ["no message"])[-1] if broken else "what it should prove did not hold"
        trouble = f"**failed** with exit code {process.returncode}: {clean(reason)}"
    return Result(
        quick,
        began,
        time.monotonic() - start,
        [clean(line.removeprefix(MARK)) for line in lines if line.startswith(MARK)],
        clean("\n".join(line for line in lines if not line.startswith(MARK))).strip("\n"),
        trouble,
        failed=bool(process.returncode),
    )


def gather(stream: IO[str], lines: list[str]) -> None:
    for line in stream:
        sys.stderr.write(line)
        lines.append(line.rstrip())


def clean(text: str) -> str:
    """The text without addresses, and with the file names only of paths on this machine: the page is public."""
    text = re.sub(r"\b[a-z]+://\S+", "(an address)", text)
    return re.sub(r"(?<![\w.)])/(?:[\w.@+-]+/)+([\w.@+-]*)", r"\1", text)


def proves(name: str) -> str:
    """The sentence in a benchmark's docstring about what it is for."""
    docstring = ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))) or ""
    sentence = re.search(r"^(?:Proves|Makes) .*?\.(?=\s|$)", docstring, re.MULTILINE | re.DOTALL)
    return " ".join(sentence.group().split()) if sentence else ""


def page(machine: Sequence[tuple[str, str]], results: Sequence[Result]) -> str:
    """RESULTS.md."""
    parts = [
        "# Results of the quick set",
        "Written by `make bench`. All benchmarks, the long ones too, are in [`__init__.py`](__init__.py). A ratio "
        "is the cost of a peer or a baseline over ours in the same run: the median, and in brackets the range over "
        "repeats. Sizes are small, and this is one machine.",
        "\n".join(f"| {name} | {value} |" for name, value in (machine[0], ("---", "---"), *machine[1:])),
    ]
    for result in results:
        taken = f", {result.seconds:.0f} seconds" if result.seconds else ""
        parts += [
            f"## {result.quick.name}",
            proves(result.quick.name),
            f"`{result.quick.command}` ({result.began:%Y-%m-%d %H:%M} UTC{taken})",
            "\n".join(f"- {line}" for line in (*filter(None, [result.trouble]), *result.headlines)),
        ]
        if result.table.count("\n") > LONG:
            parts += ["<details><summary>table</summary>", f"```text\n{result.table}\n```", "</details>"]
        elif result.table:
            parts.append(f"```text\n{result.table}\n```")
    return "\n\n".join(parts) + "\n"


def about() -> list[tuple[str, str]]:
    """Date, commit, machine and versions, taken before the first benchmark."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return [
        ("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("commit", commit()),
        ("machine", f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory; load {load:.1f} at the start"),
        ("system", f"{system()}, Python {platform.python_version()}"),
        ("packages", versions),
        ("peers", ", ".join(f"{name} {version(name)}" for name in PEERS)),
    ]


def commit() -> str:
    """The commit that was measured, and whether files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/RESULTS.md")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}, with changes" if changed else head


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    """The name of the CPU on Linux, elsewhere its architecture."""
    try:
        names = re.findall(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name}, kernel {platform.release()}"


if __name__ == "__main__":
    sys.exit(main())
