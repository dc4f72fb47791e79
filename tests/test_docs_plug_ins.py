"""The examples of plug-ins that the documentation shows work by name, as installed distributions do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.pages import SAMPLE, blocks, page
from tests.support.plug_in import write_plug_in


def test_the_plug_in_of_its_page_works_by_name_and_as_an_object(tmp_path: Path) -> None:
    """Installed as pip would: the module and its entry points beside each other."""
    text = page("docs/plug-ins.md")
    (code,), (project,) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "toml"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 23  # twenty lines, and imports
    settings = tomllib.loads(project)["project"]
    about = tmp_path / f"{settings['name'].replace('-', '_')}-{settings['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {settings['name']}\nVersion: {settings['version']}\n")
    ((group, points),) = settings["entry-points"].items()
    (about / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    (tmp_path / "overlap.py").write_text(code)

    def run(*words: str) -> str:
        environment = with_plug_ins(tmp_path)
        done = subprocess.run(words, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    (shown,) = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    first, second, said = shown.strip().splitlines()
    program = f"{first.removeprefix('>>> ')}; print(repr({second.removeprefix('>>> ')}))"
    assert run(sys.executable, "-c", program).strip() == said
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    decode, compare = (str(Path(sys.executable).with_name(name)) for name in ("mbr-decode", "mbr-compare"))
    words = ["--utility", "overlap", "--option", "lowercase=true", "--candidates", "lists.jsonl"]
    assert len(run(decode, *words).splitlines()) == 6
    assert "F-score of words" in run(decode, "--list-utilities")
    references = ["--references", "de.txt"]
    (tmp_path / "de.txt").write_text("x\n" * 6)
    run(
        compare,
        "--candidates",
        "lists.jsonl",
        *references,
        "--utility",
        "overlap,lowercase=true",
        "chrf",
        "--trials",
        "50",
    )
    rows = {row["label"]: row for row in json.loads((tmp_path / "report" / "report.json").read_text())["rows"]}
    assert "case:lower" in rows["overlap"]["signature"]
    assert rows["overlap"]["scores"]["chrf"]["same_family"]


def with_plug_ins(folder: Path) -> dict[str, str]:
    """An environment in which the plug-ins of a folder are installed."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


EXAMPLES = {
    # page, the entry point of its example, words that choose by it on both commands, its mark in a signature
    "strategy": ("docs/strategies.md", ["--utility", "pear", "--strategy", "anchors"], "pear,strategy=anchors",
                 "strategy:anchors|references:10"),
    "term": ("docs/terms.md", ["--utility", "chrf", "--add", "questions=5,marks=?"], "chrf,add=questions:5",
             "add.questions:5.0|add.questions.marks:?"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_example_of_a_plug_in_works_by_name_on_both_commands(kind: str, tmp_path: Path) -> None:
    name, words, word, mark = EXAMPLES[kind]
    environment = with_plug_ins(tmp_path)
    install_example(tmp_path, name)
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    (tmp_path / "de.txt").write_text("x\n" * 6)

    def run(command: str, *words: str) -> subprocess.CompletedProcess[str]:
        call = [str(Path(sys.executable).with_name(command)), *words, "--candidates", "lists.jsonl"]
        return subprocess.run(call, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)

    decoded = run("mbr-decode", *words)
    assert len(decoded.stdout.splitlines()) == 6
    assert mark in decoded.stderr
    run("mbr-compare", "--references", "de.txt", "--utility", word, "--trials", "50", "--study", "0")
    rows = json.loads((tmp_path / "report" / "report.json").read_text())["rows"]
    assert [row["label"] for row in rows if mark in (row["signature"] or "")]


def test_the_recipe_gives_the_example_of_a_strategy_its_options(tmp_path: Path) -> None:
    install_example(tmp_path, "docs/strategies.md")
    (words,) = [line for line in page("docs/strategies.md").splitlines() if "strategy-options: {" in line]
    command = [str(Path(sys.executable).with_name("mbr-decode")), "--candidates", str(SAMPLE)]
    recipe = words.partition("--recipe ")[2].strip('"')
    shown = subprocess.run(
        [*command, "--recipe", recipe, "--print-recipe"],
        env=with_plug_ins(tmp_path),
        check=True,
        capture_output=True,
        text=True,
    )
    assert yaml.safe_load(shown.stdout)["strategy-options"] == {"references": 20}


def test_the_example_of_a_back_end_works_by_name_on_all_commands(tmp_path: Path) -> None:
    install_example(tmp_path, "docs/generate.md")
    (tmp_path / "source.txt").write_text("A dog.\nA cat.\n")
    (tmp_path / "de.txt").write_text("x\ny\n")
    generate, decode = next(
        block for block in blocks(page("docs/generate.md"), "sh") if "echo --" in block
    ).splitlines()
    few = "--nbest 3 --utility chrf"
    compare = (
        f"mbr-compare --sources source.txt --references de.txt --translator-backend echo {few} --trials 50 --study 0"
    )
    outputs = []
    for words in (f"{generate.partition(' <')[0]} --nbest 3", f"{decode.partition(' <')[0]} {few}", compare):
        command, *rest = words.split()
        done = subprocess.run(
            [str(Path(sys.executable).with_name(command)), *rest],
            input="A dog.\nA cat.\n",
            env=with_plug_ins(tmp_path),
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        outputs.append(done.stdout)
    assert json.loads(outputs[0].splitlines()[0])["candidates"] == ["A DOG.!!", "A DOG.!!!", "A DOG.!!!!"]
    assert outputs[1].splitlines()[1].startswith("A cat.!")
    assert (tmp_path / "report" / "report.json").exists()


def install_example(folder: Path, name: str) -> None:
    """The plug-in that a page shows: the Python that begins with its file's name, and the entry point below it."""
    (code,) = [code for code in blocks(page(name), "python") if re.match(r"# \w+\.py\n", code)]
    (project,) = blocks(page(name), "toml")
    ((group, points),) = tomllib.loads(project)["project"]["entry-points"].items()
    ((called, target),) = points.items()
    assert code.startswith(f"# {called}.py\n")
    write_plug_in(folder, called, code, group, target)


def test_the_plug_ins_page_names_every_group_of_entry_points() -> None:
    from candidates.backends.base import BACKENDS
    from mbr.guards import GUARDS
    from mbr.strategies import STRATEGIES
    from mbr.terms import TERMS
    from mbr.utilities import UTILITIES

    for table in (UTILITIES, STRATEGIES, TERMS, GUARDS, BACKENDS):
        for name in ("docs/plug-ins.md", "CONTRIBUTING.md"):
            assert f"`{table.group}`" in page(name)
