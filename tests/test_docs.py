"""What the documentation shows is what happens."""

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

from tests.conftest import ROOT, Run
from tests.support.tiny import tiny_model

SAMPLE = ROOT / "benchmarks" / "sample" / "en-de.jsonl"


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name} links to {target}"


def test_the_python_of_the_api_page_runs(tmp_path: Path, ours: Path) -> None:
    shutil.copytree(ours, tmp_path / "pear-folder")
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    (code,) = re.findall(r"```python\n(.*?)```", page("docs/api.md"), re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("name", ["mbr-metaeval", "mbr-compare"])
def test_the_python_of_other_pages_runs(name: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", page(f"docs/{name}.md"), re.DOTALL)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_numbers_of_the_metaeval_page_are_real(run: Run, wmt23: Path) -> None:
    """Those of its first table, and of the same in the README; not the ranks, some of which stand on a p near .05."""
    (shown,) = re.findall(r"```text\n(\$ mbr-metaeval .*?)```", page("docs/mbr-metaeval.md"), re.DOTALL)
    assert shown in page("README.md")
    command, table = shown.replace("\\\n", "").split("\n", 1)
    words = command.removeprefix("$ ").replace("mt-metrics-eval-v2", str(wmt23.parent)).split()
    result = run(*(word for word in words if word != "--significance"), "--quiet")

    def numbers(text: str) -> dict[str, list[str]]:
        return {line.split()[0]: found for line in text.splitlines() if (found := re.findall(r"-?\d\.\d{3}", line))}

    assert len(numbers(table)) == 12
    assert numbers(table) == numbers(result.stdout)


def test_the_python_of_the_readme_gives_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", page("README.md"), re.DOTALL)
    *lines, last = code.strip().split("\n")
    expression, said = last.split("#")
    result = subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, f"print(repr({expression}))"])],
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == said.strip()


def test_the_readmes_comparison_is_one_that_a_clean_clone_can_make() -> None:
    from mbr.cli.compare.command import parser
    from mbr.cli.compare.settings import judges_of, settings_of

    (command,) = re.findall(r"\.venv/bin/mbr-compare (.*?)```", page("README.md"), re.DOTALL)
    options = parser().parse_args(command.replace("\\\n", "").split())
    for name in (options.sources, *options.references):
        assert len(page(name).splitlines()) == 100
    assert [setting.label for setting in settings_of(options)] == ["pear race", "pear halving", "chrf", "bleu"]
    assert len(judges_of(options)) == 3


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
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    (shown,) = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    first, second, said = shown.strip().splitlines()
    program = f"{first.removeprefix('>>> ')}; print(repr({second.removeprefix('>>> ')}))"
    assert run(sys.executable, "-c", program).strip() == said
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    decode, compare = (str(Path(sys.executable).with_name(name)) for name in ("mbr-decode", "mbr-compare"))
    assert len(run(decode, "--utility", "overlap", "--candidates", "lists.jsonl").splitlines()) == 6
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


def test_the_utilities_page_has_every_utility_judge_and_release() -> None:
    from mbr.evaluate.judges import judge_names
    from mbr.metrics.released import RELEASES
    from mbr.utilities import BUILT_IN, utility_class

    text = page("docs/utilities.md")
    rows = {
        name: line
        for line in text.split("\n")
        for name in re.findall(r"`([^`]+)`", line.partition("|")[2].split("|")[0])
    }
    for name in BUILT_IN:
        assert f"| {utility_class(name).family} |" in rows[name], name
    assert set(judge_names()) <= set(rows)
    for name, release in RELEASES.items():
        assert f"| {release.repository}" in rows[name]
        assert f"| {(release.revision or 'not pinned')[:12]} |" in rows[name]
        assert release.licence[:11] in rows[name]


def test_the_python_of_the_resume_page_and_the_pear_page_runs(tmp_path: Path) -> None:
    for kind, name in (("resume", "resume"), ("single", "single"), ("sentinel-cand", "sentinel")):
        tiny_model(tmp_path / "made", kind).rename(tmp_path / f"{name}-folder")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page("docs/resume.md") + page("docs/pear.md"), re.DOTALL))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)


def test_the_record_shown_for_mbr_decode_is_a_real_one(run: Run) -> None:
    shown = json.loads(re.findall(r"```json\n(.*?)```", page("docs/mbr-decode.md"), re.DOTALL)[0])
    result = run("mbr-decode", "--utility", "chrf", "--candidates", SAMPLE, "--format", "jsonl")
    assert shown in [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.one_world
def test_the_demo_shows_what_the_readme_shows() -> None:
    """All but the translations and their numbers, which may differ a little between processors: int8 does."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.demo"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    (shown,) = re.findall(r"make demo` prints.*?```text\n(.*?)```", page("README.md"), re.DOTALL)
    lines = result.stdout.splitlines()
    for line in filter(None, shown.splitlines()):
        if line.startswith(("$", "  source")):
            assert line in lines
        elif line[2] != " ":
            assert any(other.startswith(line[:14]) for other in lines), line
        else:
            assert re.sub(r"[\d.]+", "0", line) in [re.sub(r"[\d.]+", "0", other) for other in lines], line
    assert sum(line.startswith("  MBR choice  ") for line in lines) == 8


def test_the_picture_is_up_to_date() -> None:
    from benchmarks.picture import draw

    record = json.loads(SAMPLE.read_text(encoding="utf-8").splitlines()[1])
    assert draw(record["source"], record["candidates"]) == page("docs/matrix.svg")
