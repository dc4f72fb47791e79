"""The quick-start lines of every `--help` run as they stand, one after another, on the files that they name.

A line that says `downloads` ends here, without a hub, with the exit code of a model that is missing; the one for
several GPUs has options that exist.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
import tarfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from candidates import CandidateList, Settings, open_generator
from candidates.command.console import Parser
from candidates.command.launch import COMMANDS
from candidates.common.errors import MbrError, ModelError
from candidates.formats import render_list
from mbr.cli.metaeval.command import TASKS
from pear.checkpoint import load_checkpoint
from tests.conftest import write_jsonl
from tests.mbr.metaeval.made import OUTPUTS, write_ratings, write_set
from tests.mbr.metaeval.test_studies import ERRORS
from tests.support.chat_server import answered, serving
from tests.support.pages import SAMPLE

pytestmark = pytest.mark.one_world

# mbr-serve answers until it is stopped: tests/mbr/serve runs what its page shows.
ELSEWHERE = ("mbr-metaeval", "mbr-decode", "mbr-serve", "pear")
PARSERS = {
    **{name: module for name, module in COMMANDS.items() if name not in ELSEWHERE},
    "mbr-decode": "mbr.cli.decode.arguments",
    "pear": "pear.commands.options",
    **{f"mbr-metaeval {task}": f"mbr.cli.metaeval.{task.replace('-', '_')}" for task in TASKS},
}
SEGMENTS = 2
SERVER = "http://localhost:8000/v1"  # of a chat model
GERMAN = ("Ein Hund rennt.", "Der Hund läuft.", "Ein Hund läuft.", "Hunde laufen.")


def parser_of(name: str) -> Parser:
    parser: Parser = import_module(PARSERS[name]).parser()
    return parser


def lines_of(name: str) -> list[str]:
    """The lines below `quick start:`, with the remark behind `#`; a line that ends in \\ continues."""
    epilog = (parser_of(name).epilog or "").replace("\\\n", " ")
    block = epilog.partition("quick start:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def split_line(line: str) -> tuple[str, str]:
    """Command and remark."""
    command, _, remark = line.partition(" # ")
    return command.rstrip(), remark


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, released: Path) -> Path:
    folder = tmp_path_factory.mktemp("files")
    records = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()[:SEGMENTS]]
    few = [{**record, "candidates": record["candidates"][:6]} for record in records]
    write_jsonl(folder / "lists.jsonl", [{key: one[key] for key in ("id", "source", "candidates")} for one in few])
    write_jsonl(folder / "nbest.jsonl", [{"src": one["source"], "hypotheses": one["candidates"][:3]} for one in few])
    write_jsonl(folder / "best.jsonl", [{"id": one["id"], "text": one["candidates"][0]} for one in few])
    texts = {
        "src.txt": [one["source"] for one in few],
        "ref.txt": [one["candidates"][1] for one in few],
        "a.txt": [one["candidates"][0] for one in few],
        "b.txt": [one["candidates"][2] for one in few],
        "old.txt": [one["candidates"][0] for one in few],
        "new.txt": [one["candidates"][2] for one in few],
        "mt.txt": [one["candidates"][0] for one in few],
        "pe.txt": [one["candidates"][1] for one in few],
        "nbest.txt": [text for one in records for text in (one["candidates"] * 100)[:100]],
        "pairs.tsv": ["src\tmt_0\tmt_1", "A dog runs.\tEin Hund rennt.\tHunde laufen."],
        "refs.tsv": ["src\tmt\tref", "A dog runs.\tEin Hund rennt.\tHunde laufen."],
        "outputs.tsv": ["src\tA\tB\tC\tref", "A dog runs.\tEin Hund.\tHunde.\tHund.\tEin Hund rennt."],
        "mqm.csv": ["src,mt,ref,score", *_judgments()],
        "da.csv": ["src,mt,score", "a,b,1"],
        "run.yaml": ["data: [mqm.csv]", "output: small"],
    }
    for name, content in texts.items():
        (folder / name).write_text("".join(text + "\n" for text in content), encoding="utf-8")
    _write_shards(folder)
    _write_development(folder)
    _write_outputs(folder, few)
    _write_metaeval(folder)
    shutil.copytree(released, folder / "old")
    shutil.copytree(released / "encoder", folder / "xlmr-folder")
    trainable = load_checkpoint(released, trainable=True)
    trainable.network.encoder.save_pretrained(folder / "xlmr-folder")
    return folder


def _write_shards(folder: Path) -> None:
    for number in (1, 2, 3):
        words = ["--utility", "chrf", "--candidates", str(folder / "lists.jsonl"), "--shard", f"{number}/3", "--quiet"]
        import_module(COMMANDS["mbr-decode"]).command([*words, "-o", str(folder / f"best-{number}.txt")])


def _write_development(folder: Path) -> None:
    """Lists with references, and parallel text, for mbr-tune."""
    sample = SAMPLE.parent
    english, german = (
        (sample / f"hundred.{language}.txt").read_text(encoding="utf-8").splitlines()[:24] for language in ("en", "de")
    )
    with open_generator(Settings(nbest=6)) as generator:
        made = [item for item in generator.generate(english) if isinstance(item, CandidateList)]
    (folder / "dev.jsonl").write_bytes(b"".join(render_list(item, "jsonl", 0) for item in made))
    (folder / "dev.txt").write_text("".join(text + "\n" for text in german), encoding="utf-8")
    pairs = (f"{source}\t{target}\n" for source, target in zip(english, german, strict=True))
    (folder / "parallel.tsv").write_text("".join(pairs), encoding="utf-8")


def _judgments() -> Iterator[str]:
    for number in range(12):
        for place, text in enumerate(GERMAN):
            yield f"source {number},{text},{GERMAN[0]},-{place}"


def _write_outputs(folder: Path, lists: list[dict[str, list[str]]]) -> None:
    (folder / "system-outputs" / "en-de").mkdir(parents=True)
    for place, name in enumerate(("x", "y")):
        text = "".join(one["candidates"][place] + "\n" for one in lists)
        (folder / "system-outputs" / "en-de" / f"{name}.txt").write_text(text, encoding="utf-8")


def _write_metaeval(folder: Path) -> None:
    """A test set in mt-metrics-eval's layout, tables of scores, of ratings and of errors, and post-edits."""
    for lp in ("en-de", "he-en"):
        write_set(folder / "mt-metrics-eval-v2", "wmt23", lp)
    for lp in ("en-de", "en-es", "ja-zh"):
        write_set(folder / "mt-metrics-eval-v2", "wmt24", lp)
    people = folder / "mt-metrics-eval-v2" / "wmt23" / "human-scores"
    shutil.copy(people / "en-de.esa.seg.score", people / "en-de.da-sqm.seg.score")
    shutil.copy(people / "en-de.mqm.seg.score", people / "en-de.mqm.merged.seg.score")
    errors = [[("Fluency/Grammar", "minor")], [("Accuracy/Mistranslation", "major")], [], []]
    ratings = [
        {"errors": [{"category": category, "severity": severity} for category, severity in marked]} for marked in errors
    ]
    systems = ("good", "mid", "poor", "refA", "refB")  # refA is called ref in tables
    rows = [f"{name}\t{json.dumps(ratings[(row + n) % 4])}\n" for n, name in enumerate(systems) for row in range(4)]
    (people / "en-de.mqm.merged.seg.rating").write_text("".join(rows))
    scored = [(system, segment, -abs(len(system) - segment) / 2) for system in systems for segment in range(4)]
    head = ("system", "segment", "mqm", "mqm-col1", "mqm-col2", "mqm-col3", "psqm-col1", "metric")
    table = [(s, n, x, x, x - n % 2, x - len(s) % 3, n + 2 * x, x * x) for s, n, x in scored]
    for name in ("scores.tsv", "wmt20.en-de.tsv"):
        text = "".join("\t".join(map(str, row)) + "\n" for row in (head, *table))
        (folder / name).write_text(text.replace("refA", "ref"))
    (folder / "mine.tsv").write_text("".join(f"{system}\t{x}\n" for system, _, x in scored))
    write_jsonl(
        folder / "mine.jsonl", [{"system": s.replace("refA", "ref"), "segment": n, "score": x} for s, n, x in scored]
    )
    pairs = [f"{a}\t{b}\t{n}\t{len(a) - len(b) + n}\n" for a in OUTPUTS for b in OUTPUTS if a != b for n in range(1, 5)]
    for name in ("pear", "pear.en-de", "pear.en-es", "pear.ja-zh"):
        (folder / f"{name}.tsv").write_text("system\tother\tsegment\tscore\n" + "".join(pairs))
    rated = [f"{s}\t{n}\trater{k}\t{-n * k % 5}\n" for s in OUTPUTS for n in range(1, 5) for k in range(3)]
    for name in ("mqm", "psqm"):
        (folder / f"{name}.tsv").write_text("system\tseg_id\trater\tscore\n" + "".join(rated))
    (folder / "mqm_ted_ende.tsv").write_text(ERRORS)
    write_ratings(folder / "mqm_generalMT.tsv")
    with tarfile.open(folder / "post-editing-test-en-de-test.tar.gz", "w:gz") as archive:
        for suffix, text in (("src", "a\nb\n"), ("mt", "x y\nz\n"), ("pe", "x\nz\n")):
            entry = tarfile.TarInfo(f"set/test.{suffix}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_every_command_has_quick_start_lines_that_begin_with_it() -> None:
    for name in PARSERS:
        assert lines_of(name), name
        for line in lines_of(name):
            assert name.removesuffix(" agreement") in line, line


@pytest.mark.parametrize("name", PARSERS)
def test_exit_code_1_is_explained_where_it_can_happen(name: str) -> None:
    codes = (parser_of(name).epilog or "").partition("exit codes:")[2]
    assert ("1 some segments" in codes) == (name in ("mbr-decode", "mbr-generate", "mbr-compare", "mbr-merge"))
    assert codes.index("0 done") < codes.index("2 usage") < codes.index("3 input data")


@pytest.mark.parametrize("name", PARSERS)
def test_quick_start_lines_run_as_they_stand(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written = re.findall(r"(?<=-o )\S+", " ".join(lines_of(name)))
    for item in (item for item in files.iterdir() if item.name not in written):
        (tmp_path / item.name).symlink_to(item) if item.is_dir() else shutil.copy(item, tmp_path)
    for model in ("my-resume", "my-single"):
        if any(model in line for line in lines_of(name)) and name != "pear-train":
            write_model(model.removeprefix("my-"))
    for line in lines_of(name):
        command, remark = split_line(line)
        if SERVER in command:
            with serving(monkeypatch) as server:
                server.script = lambda prompt, asked, body: answered('{"errors": []}')
                code = outcome(command.replace(SERVER, server.address), name, monkeypatch)
        else:
            code = outcome(command, name, monkeypatch)
        shown = capsys.readouterr()
        assert code == (ModelError.exit_code if "downloads" in remark else 0), f"{line}\n{shown.err}"
        assert "Traceback" not in shown.err


def write_model(kind: str) -> None:
    """A model of this kind from a short training, as the page says."""
    words = ["--data", "mqm.csv", "--kind", kind, "--from", "old", "--steps", "1", "-o", f"my-{kind}"]
    words += ["--score-range", "-25", "0"] if kind == "resume" else []
    import_module(COMMANDS["pear-train"]).command(words)


def outcome(line: str, name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a line of a shell: a command, one that echoes its input, or one for several processes."""
    text, pipe, right = line.partition(" | ")
    if pipe:
        Path("stdin").write_text(shlex.split(text)[1] + "\n")
        monkeypatch.setattr(sys, "stdin", Path("stdin").open())  # noqa: SIM115  # until the test ends
    if line.startswith("torchrun "):
        parser_of(name).parse_args(shlex.split(line.partition(")")[2]))
        return 0
    command, otherwise, _ = (right or line).partition(" || ")
    words = shlex.split(command)
    try:
        code: int = import_module(COMMANDS[words[0]]).command(words[1:])
    except MbrError as exc:
        print(exc, file=sys.stderr)
        code = exc.exit_code
    return 0 if otherwise or words == ["mbr-doctor"] else code  # the code is its answer
