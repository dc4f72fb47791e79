"""What the documentation shows is what its commands print: every transcript of every page, run again.

    python -m benchmarks.transcripts                      # prints what differs; exit code 1 where something does
    python -m benchmarks.transcripts --write              # renews all that depends on the bundled models
    python -m benchmarks.transcripts docs/terms.md --write

Proves that the pages show what happens. A transcript is one of three:

- a block that begins with `$ COMMAND`: what follows in it is what the command prints;
- a block `sh` or `python` and, right below it, a block `text`, `json` or `yaml`;
- any block below a comment `<!-- prints: COMMAND -->`, for commands that the page does not show.

A line `...` stands for any number of lines. A `json` block is one record of what is printed. Numbers may differ a
little (`CLOSE`), durations by any amount. The commands of a page run in its order, in a folder that looks like a clone
with a `lists.jsonl`; of a how-to guide all commands run, those without output too. A block with a title (`needs a GPU`)
is not run.

The translation models run in int8, whose products by oneDNN differ between x86 processors with and without VNNI, so
that a close choice may fall another way. Commands, the notebook and the picture of a walk run with
`ONEDNN_MAX_CPU_ISA=AVX2` (`support/processors.py`), which gives the same results on both. A command that shows what
VNNI does takes the variable out again (`env -u ONEDNN_MAX_CPU_ISA`). On processors that are not x86_64, tests run all
commands and skip the comparison where the output differs.

`--write` also renews fingerprints of the bundled models, numbers of benchmarks (`support/quotes.py`), the notebook and
two pictures.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import picture, walk
from benchmarks.support.places import DATA, ROOT
from benchmarks.support.processors import SAME_ON_X86, abilities
from benchmarks.support.quotes import requoted, values_of, wrong

SAMPLE = ROOT / "benchmarks" / "sample" / "en-de.jsonl"
TOUR = ROOT / "docs" / "tour.ipynb"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WIDTH = 130  # columns of a JSON record on a page
CLOSE = 0.05  # share by which a number may differ, and 0.02
ELISION = "..."
# Pages whose transcripts need more than this machine, with what runs them instead.
ELSEWHERE = {
    "docs/llm.md": "a chat server: tests/mbr/utilities/test_llm.py, tests/pear/labelling",
    "docs/mbr-evaluate.md": "WMT23 and released models: tests/mbr/evaluate",
    "docs/mbr-metaeval.md": "tests/test_docs.py, which leaves out ranks that stand on a p near .05",
    "docs/serve.md": "a service: tests/mbr/serve",
}
_FENCE = re.compile(
    r"(?:^<!-- prints: (?P<hidden>[^\n]*) -->\n)?^```(?P<kind>\w+)(?P<title>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S
)
_NUMBER = re.compile(r"(?<![\w.@])[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w@])")
_DURATION = re.compile(r"\b\d[\d.,]* (?:s|ms|seconds?)\b")
_FINGERPRINT = re.compile(r"\b(?:en-de|de-en)@(?:[0-9a-f]{12}|[0-9a-f]{8})\b")


@dataclass(frozen=True)
class Step:
    """Commands of a page, and what it shows of their output: None for nothing, else a part of the page."""

    commands: str
    kind: str = "text"
    shown: str | None = None
    span: tuple[int, int] = (0, 0)


def steps(text: str, *, whole: bool = False) -> list[Step]:
    """The transcripts of a page in their order; with `whole` also its other blocks of commands."""
    found: list[Step] = []
    before: re.Match[str] | None = None
    for block in _FENCE.finditer(text):
        body, span = block["body"], block.span("body")
        head = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*\n)", body)
        if block["hidden"]:
            found.append(Step(block["hidden"], block["kind"], body, span))
        elif block["kind"] == "text" and head:
            found.append(Step(head[1], "text", body[head.end() :], (span[0] + head.end(), span[1])))
        elif before and block["kind"] in ("text", "json", "yaml") and not text[before.end() : block.start()].strip():
            found.append(Step(_program(before), block["kind"], body, span))
        before = block if block["kind"] in ("sh", "python") and not block["title"].strip() else None
    if whole:
        printing = {step.commands for step in found}
        silent = [Step(block["body"], span=block.span("body")) for block in _FENCE.finditer(text) if _silent(block)]
        found += [step for step in silent if step.commands not in printing]
    return sorted(found, key=lambda step: step.span)


def _program(block: re.Match[str]) -> str:
    body: str = block["body"]
    return body if block["kind"] == "sh" else f"python - <<'END'\n{body}END\n"


def _silent(block: re.Match[str]) -> bool:
    return block["kind"] == "sh" and not block["title"].strip()


def is_guide(page: Path) -> bool:
    """Whether every command of a page is there to be followed."""
    return page.parent.name == "guides" or page == ROOT / "docs" / "index.md"


def prepare(folder: Path) -> None:
    """Make a folder look like a clone, with candidate lists and the data that is there."""
    for name in ("benchmarks", "candidates", "constraints", "mbr", "pear", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "lists.jsonl").write_bytes(SAMPLE.read_bytes())
    if (DATA / "mt-metrics-eval-v2").is_dir():
        (folder / "mt-metrics-eval-v2").symlink_to(DATA / "mt-metrics-eval-v2")


def missing(text: str) -> str:
    """What the transcripts of a page need and this machine lacks; empty where nothing is."""
    if "--data mt-metrics-eval-v2" in text and not (DATA / "mt-metrics-eval-v2").is_dir():
        return f"no mt-metrics-eval-v2 at {DATA}; set MBR_DATA to the folder that holds it"
    if "int8 against float32" in text and not any("vnni" in name for name in abilities()):
        return "int8 needs a processor with VNNI"
    if re.search(r"^mbr-decode .* --ray$", text, re.M) and importlib.util.find_spec("ray") is None:
        return "needs the extra `ray`, which the COMET environment has"
    return ""


def run(step: Step, folder: Path) -> str:
    """What the commands of a step print.

    Raises:
        RuntimeError: one of them failed, or printed a traceback.
    """
    commands = re.sub(r"^pip install .*\n", "", step.commands, flags=re.M)
    environment = {
        **os.environ,
        **SAME_ON_X86,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "110",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.replace("8080", str(_free_port()))],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode or "Traceback" in done.stderr:
        raise RuntimeError(f"exit code {done.returncode} of\n{step.commands}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def same(step: Step, printed: str) -> bool:
    """Whether a page shows what was printed."""
    assert step.shown is not None
    if step.kind == "json":
        return any(_close(json.dumps(json.loads(step.shown)), json.dumps(record)) for record in _records(printed))
    parts = _parts(step.shown)
    lines = printed.splitlines()
    at = 0
    for number, part in enumerate(parts):
        last = len(lines) - len(part)
        places = range(last, last + 1) if number == len(parts) - 1 else range(at, last + 1) if number else range(1)
        at = next((p for p in places if p >= at and _close("\n".join(part), "\n".join(lines[p : p + len(part)]))), -1)
        if at < 0:
            return False
        at += len(part)
    return len(parts) > 1 or at == len(lines)


def _parts(shown: str) -> list[list[str]]:
    """The lines of a block between its elisions."""
    parts: list[list[str]] = [[]]
    for line in shown.splitlines():
        if line == ELISION:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _close(shown: str, printed: str) -> bool:
    """The same words, and nearly the same numbers."""
    shown, printed = (_DURATION.sub("0 s", text) for text in (shown, printed))
    words = [" ".join(_NUMBER.sub("0", text).split()) for text in (shown, printed)]
    if words[0] != words[1]:
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(math.isclose(_value(a), _value(b), rel_tol=CLOSE, abs_tol=0.02) for a, b in pairs)


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _records(printed: str) -> Iterator[dict[str, Any]]:
    for line in printed.splitlines():
        yield json.loads(line)


def renewed(step: Step, printed: str) -> str:
    """What the page should show: the output, with the elisions and the record of what it shows now."""
    assert step.shown is not None
    if step.kind == "json":
        wanted = json.loads(step.shown).get("id")
        record = next((record for record in _records(printed) if record.get("id") == wanted), None)
        line = json.dumps(record or next(_records(printed)), ensure_ascii=False)
        return textwrap.fill(line, WIDTH, subsequent_indent=" ", break_long_words=False, break_on_hyphens=False) + "\n"
    first, *rest = _parts(step.shown)
    if not rest:
        return printed
    lines = printed.splitlines()
    shown = lines[: len(first)]
    for number, part in enumerate(rest, 1):
        if not part:
            shown.append(ELISION)
            continue
        at = next((p for p, line in enumerate(lines) if line == part[0]), None)
        word = part[0].split()[:1]
        at = at if at is not None else next((p for p, line in enumerate(lines) if line.split()[:1] == word), 0)
        shown += [ELISION, *(lines[at:] if number == len(rest) else lines[at : at + len(part)])]
    return "\n".join(shown) + "\n"


def renew(page: Path, *, write: bool) -> bool:
    """Run the transcripts of a page, print what differs, and write it; whether all were as shown."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    found = [] if name in ELSEWHERE else steps(text, whole=is_guide(page))
    if not any(step.shown is not None for step in found):
        return True
    if lacking := missing(text):
        print(f"{name}: not run: {lacking}")
        return True
    changes: list[tuple[Step, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for step in found:
            printed = run(step, folder)
            if step.shown is not None and not same(step, printed):
                changes.append((step, renewed(step, printed)))
    for step, better in changes:
        before = (step.shown or "").splitlines()
        print(f"{name}: {step.commands.strip()}")
        print("\n".join(difflib.unified_diff(before, better.splitlines(), "shown", "printed", lineterm="", n=0)))
    if write and changes:
        for step, better in reversed(changes):
            text = text[: step.span[0]] + better + text[step.span[1] :]
        page.write_text(text, encoding="utf-8")
    return not changes


def fingerprints() -> dict[str, str]:
    """The bundled models as signatures name them: `en-de@` and its digits by the number of digits."""
    words = [str(Path(sys.executable).with_name("mbr-decode")), "--nbest", "2"]
    environment = {**os.environ, **SAME_ON_X86}
    done = subprocess.run(words, input="A dog.\n", env=environment, capture_output=True, check=True, encoding="utf-8")
    names = re.findall(rf"\|(?:model|translator|add\.reverse\.model):({_FINGERPRINT.pattern})", done.stderr)
    return {_family(name): name for name in names}


def _family(name: str) -> str:
    """A model without the digits of its fingerprint: PEARs have 12 of them, translators 8."""
    model, _, digits = name.partition("@")
    return f"{model}@{'x' * len(digits)}"


def outdated(text: str, current: dict[str, str]) -> list[str]:
    """Fingerprints on a page that no bundled model has any more."""
    return [name for name in _FINGERPRINT.findall(text) if current.get(_family(name), name) != name]


def renew_fingerprints(pages: Sequence[Path], *, write: bool) -> bool:
    current, correct = fingerprints(), True
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name in outdated(text, current):
            print(f"{page.relative_to(ROOT)}: {name} is {current[_family(name)]}")
            correct = False
        if write:
            page.write_text(
                _FINGERPRINT.sub(lambda name: current.get(_family(name[0]), name[0]), text), encoding="utf-8"
            )
    return correct


def renew_quotes(pages: Sequence[Path], *, write: bool) -> bool:
    """Compare the numbers that pages quote with what benchmarks have kept, and write these."""
    files = (ROOT / "benchmarks" / "results").glob("*.json")
    known = {file.stem: values for file in files if (values := values_of(file.stem)) is not None}
    correct = True
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for message in wrong(text, known):
            print(f"{page.relative_to(ROOT)}: {message}")
            correct = False
        if write:
            page.write_text(requoted(text, known), encoding="utf-8")
    return correct


def executed_tour() -> Any:
    """The notebook after a run of all its cells."""
    import nbclient
    import nbformat

    notebook = nbformat.read(TOUR, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(TOUR.parent)}})
    return client.execute(env={**os.environ, **SAME_ON_X86})


def renew_tour() -> None:
    """Run the notebook and keep what it prints."""
    import nbformat

    notebook = executed_tour()
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)  # times of this machine
    nbformat.write(notebook, TOUR)
    print(f"wrote {TOUR.relative_to(ROOT)}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transcripts", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("pages", nargs="*", type=Path, help="pages (default: all, the notebook and the pictures)")
    parser.add_argument("--write", action="store_true", help="write what is printed into the pages")
    options = parser.parse_args(words)
    pages = [page.resolve() for page in options.pages] or PAGES
    correct = [renew(page, write=options.write) for page in pages]
    correct.append(renew_fingerprints(pages, write=options.write))
    correct.append(renew_quotes(pages, write=options.write))
    if options.write and not options.pages:
        renew_tour()
        picture.main()
        walk.main([])
    return 0 if all(correct) or options.write else 1


if __name__ == "__main__":
    sys.exit(main())
