"""What the documentation shows is what happens."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import candidates.common.errors
from benchmarks.support.processors import other_processor
from benchmarks.transcripts import Step
from benchmarks.transcripts import run as run_step
from candidates.command.completion import parser_of
from candidates.command.console import EXIT_CODES
from candidates.command.launch import COMMANDS
from tests.conftest import ROOT, Run
from tests.support.pages import PAGES, SAMPLE, blocks, page


def anchors(file: Path) -> set[str]:
    """What GitHub makes of the headings of a page, and anchors that were headings once."""
    text = file.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'^<a id="([\w-]+)"></a>$', text, re.MULTILINE))


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^):]+)\)", prose):
        name, _, anchor = target.partition("#")
        linked = file.parent / name if name else file
        assert linked.exists(), f"{file.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{file.name} links to {target}, which is no heading there"


def test_every_flag_in_the_pages_exists(run: Run) -> None:
    """In blocks of commands; those removed from a command must leave its pages too."""
    flags: dict[tuple[str, ...], set[str]] = {}

    def accepted(*words: str) -> set[str]:
        if words not in flags:
            flags[words] = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", run(*words, "--help-all").stdout))
        return flags[words]

    wrong = []
    for file in PAGES:
        for block in blocks(file.read_text(encoding="utf-8"), "(?:sh|text)"):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r" [|#] |(?<=\|) ", re.sub(r"\s+#.*| > .*", "", line)):
                    words = part.replace("$ ", "").replace(".venv/bin/", "").split()
                    if not words or words[0] not in COMMANDS:
                        continue
                    task = words[1:2] if words[1:] and words[0] == "mbr-metaeval" and words[1][0] != "-" else []
                    given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
                    unknown = given - accepted(words[0], *task)
                    wrong += [f"{file.name}: {part.strip()}: {flag}" for flag in sorted(unknown)]
    assert not wrong, "\n".join(wrong)
    assert len(flags) > 8


def test_the_numbers_of_the_metaeval_page_are_real(run: Run, wmt23: Path) -> None:
    """Those of its first table; not the ranks, some of which stand on a p near .05."""
    shown, choice = re.findall(r"```text\n(\$ mbr-metaeval .*?)```", page("docs/mbr-metaeval.md"), re.DOTALL)
    command, table = shown.replace("\\\n", "").split("\n", 1)
    words = command.removeprefix("$ ").replace("mt-metrics-eval-v2", str(wmt23.parent)).split()
    result = run(*(word for word in words if word != "--significance"), "--quiet")

    def numbers(text: str) -> dict[str, list[str]]:
        return {line.split()[0]: found for line in text.splitlines() if (found := re.findall(r"-?\d\.\d{3}", line))}

    assert len(numbers(table)) == 12
    assert numbers(table) == numbers(result.stdout)
    command, table = choice.replace("\\\n", "").split("\n", 1)
    words = command.removeprefix("$ ").replace("mt-metrics-eval-v2", str(wmt23.parent)).split()
    assert run(*words, "--quiet").stdout == table


def test_the_first_table_of_the_evaluation_page_is_what_its_command_prints(run: Run, wmt23: Path) -> None:
    shown = re.findall(r"```text\n(\$ cd .*?)```", page("docs/mbr-evaluate.md"), re.DOTALL)[0]
    folder, command, table = shown.replace("\\\n", "").split("\n", 2)
    assert folder == f"$ cd mt-metrics-eval-v2/{wmt23.name}"
    words = [str(wmt23 / word) if "/" in word else word for word in command.removeprefix("$ ").split()]
    messages, printed = table.partition("system  ")[0], run(*words)
    assert printed.stdout == table.removeprefix(messages)
    stderr = printed.stderr.replace(f"{wmt23}/", "")
    assert stderr.startswith(messages)
    assert stderr.count("\n") == messages.count("\n") + 1  # the line with the time


def test_the_readme_is_short_and_names_every_command() -> None:
    text = page("README.md")
    assert len(text.encode()) <= 8_000
    for command in COMMANDS:
        assert f"[`{command}`](docs/" in text


@pytest.mark.one_world
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """Those below `Use it`, but for the one that downloads the released PEAR."""
    (block,) = re.findall(r"## Use it\n\n```sh\n(.*?)```", page("README.md"), re.DOTALL)
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    *commands, released = block.splitlines()
    assert "--model pear" in released
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert len((tmp_path / "best.txt").read_text(encoding="utf-8").splitlines()) == len(SAMPLE.read_text().splitlines())


def test_the_readmes_installation_names_every_extra_for_users() -> None:
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    (paragraph,) = re.findall(r"^Extras: .*?\n\n", page("README.md"), re.DOTALL | re.MULTILINE)
    (example,) = re.findall(r"'\.\[(.*?)\]'", paragraph)
    named = {*re.findall(r"`([a-z-]+)`", paragraph), *example.split(",")}
    assert named >= set(extras) - {"bench", "dev", "docs"}


BENCHMARK = r"`(python -m benchmarks\.[^`]+)`"


def test_other_tables_of_the_readme_have_no_measured_numbers() -> None:
    rows = [line for line in page("README.md").splitlines() if line.startswith("|") and not re.search(BENCHMARK, line)]
    assert not [row for row in rows if re.search(r"(?<![\w:])\d+\.\d+", row)]


def test_every_proof_of_the_comparison_with_peers_exists() -> None:
    rows = [line for line in page("docs/peers.md").splitlines() if line.startswith("| ") and line.count("|") == 8]
    proofs = [proof for row in rows for proof in re.findall(r"`([^`]+)`", row.split("|")[7])]
    targets = re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE)
    assert len(proofs) > 30
    for proof in proofs:
        kind, _, name = proof.partition(" ")
        if kind == "make":
            assert name in targets, proof
        elif kind == "python":
            assert (ROOT / "benchmarks" / f"{name.split()[1].removeprefix('benchmarks.')}.py").is_file(), proof
        else:
            assert (ROOT / proof).exists(), proof
    yes = [row.split("|")[1].strip() for row in rows if row.split("|")[2].strip().startswith("yes")]
    shown = [row.split("|")[1].strip() for row in rows if row.split("|")[7].strip()]
    assert set(yes) - set(shown) == {"on several GPUs"}, "a yes of ours without a proof"


@pytest.mark.parametrize(
    ("words", "meaning", "default"),
    [
        ("output file (default: standard output); written whole", "output file; written whole", "standard output"),
        ("default: by the name", "", "by the name"),
        ("pairs; default: race for pear, else full", "pairs", "race for pear, else full"),
        ("text (default: 100), lists (default: all)", "text (default: 100), lists (default: all)", "several"),
        ("a number (default: f(x))", "a number", "f(x)"),
        ("no number", "no number", ""),
    ],
)
def test_the_table_of_options_has_the_default_of_a_help_text(words: str, meaning: str, default: str) -> None:
    split_default = runpy.run_path(str(ROOT / "docs" / "_site" / "options.py"))["split_default"]
    assert split_default(words) == (meaning, default)


def test_every_command_of_the_table_of_options_has_a_page() -> None:
    tables = runpy.run_path(str(ROOT / "docs" / "_site" / "options.py"))["option_tables"]()
    links = re.findall(r"More: \[.*?\]\(\.\./(.*?)\)", tables)
    assert len(links) == len(COMMANDS)
    for target in links:
        name, _, anchor = target.partition("#")
        assert not anchor or anchor in anchors(ROOT / "docs" / name), target


def test_help_breaks_no_name() -> None:
    text = parser_of("mbr-metaeval").format_help()
    assert "segment_pearson,global_pearson" in text
    assert not re.search(r"segment_pe\s", text)


def test_every_page_is_in_the_sites_menu() -> None:
    """The strict build of `make lint` finds it too, where mkdocs is installed."""
    menu = set(re.findall(r"^ +- .*: ([\w/-]+\.md)$", page("mkdocs.yml"), re.MULTILINE))
    assert set(_docs()) <= menu


def _docs() -> list[str]:
    return [file.relative_to(ROOT / "docs").as_posix() for file in PAGES if (ROOT / "docs") in file.parents]


def test_the_comparison_of_the_examples_is_one_that_a_clean_clone_can_make() -> None:
    from mbr.cli.compare.command import parser
    from mbr.cli.compare.settings import judges_of, settings_of

    (command,) = re.findall(r"\.venv/bin/mbr-compare (.*?)```", page("docs/examples.md"), re.DOTALL)
    options = parser().parse_args(command.replace("\\\n", "").split())
    for name in (options.sources, *options.references):
        assert len(page(name).splitlines()) == 100
    assert [setting.label for setting in settings_of(options)] == ["pear race", "pear halving", "chrf", "bleu"]
    assert len(judges_of(options)) == 3


def test_the_recipe_with_every_key_is_one(tmp_path: Path) -> None:
    from mbr.recipe import recipe_from, recipe_mapping
    from mbr.recipe.files import _KEYS

    text = page("docs/recipes.md")
    shown, complete, shipped = (yaml.safe_load(block) for block in blocks(text, "yaml"))
    assert list(complete) == list(_KEYS)
    assert all(f"| `{key}` |" in text for key in _KEYS)
    assert recipe_mapping(recipe_from(complete, "docs"))["terms"]["reverse"] == complete["terms"]["reverse"]
    assert shipped == yaml.safe_load((ROOT / "pear/bundled/en-de/recipe.yaml").read_text())
    assert recipe_mapping(recipe_from(shown, "docs")) == recipe_mapping(recipe_from(shipped, "shipped"))


def test_the_guards_page_shows_what_happens_and_has_every_guard(run: Run, tmp_path: Path) -> None:
    from mbr.glossary import read_glossary
    from mbr.guards import guard_names

    text = page("docs/guards.md")
    (lines,) = re.findall(r"<<'EOF'\n(.*?)EOF", text, re.DOTALL)
    (tmp_path / "ui.jsonl").write_text(lines, encoding="utf-8")
    words = ("mbr-decode", "--candidates", "ui.jsonl", "--utility", "chrf")
    shown, glossary = blocks(text, "text")
    guarded = run(*words, "--format", "tsv", "--require", "production")
    assert guarded.stdout == shown
    assert "; 3 candidates dropped by guards (placeholders 3);" in guarded.stderr
    assert run(*words).stdout.splitlines()[0] == "Hallo, du hast noch Dateien."
    for name in guard_names():
        assert f"| `{name}` |" in text
    (tmp_path / "terms.tsv").write_text(glossary, encoding="utf-8")
    assert len(read_glossary(tmp_path / "terms.tsv").entries) == 4


def test_the_utilities_page_has_every_utility_judge_and_release() -> None:
    from mbr.evaluate.judges import judge_names
    from mbr.metrics.released import RELEASES
    from mbr.utilities import UTILITIES, utility_class

    text = page("docs/utilities.md")
    rows = {
        name: line
        for line in reversed(text.split("\n"))  # of several rows the first counts
        for name in re.findall(r"`([^`]+)`", line.partition("|")[2].split("|")[0])
    }
    for name in UTILITIES.built_in:
        assert f"| {utility_class(name).family} |" in rows[name], name
    assert set(judge_names()) <= set(rows)
    for name, release in RELEASES.items():
        assert f"| {release.repository}" in rows[name]
        assert f"| {(release.revision or 'not pinned')[:12]} |" in rows[name]
        assert release.licence[:11] in rows[name]


def test_the_page_of_statistics_has_every_one_of_them() -> None:
    """Its numbers are compared by tests/test_transcripts.py."""
    from mbr.metaeval import STATISTICS

    text = page("docs/statistics.md")
    for name in STATISTICS:
        assert re.search(rf"\*\*[^*]*`{name}`", text), name


def test_the_page_of_exit_codes_has_all_of_them_and_the_commands_that_end_with_1(run: Run) -> None:
    table = re.findall(r"^\| \d.*$", page("docs/reference/exit-codes.md"), re.MULTILINE)
    rows = {row.split("|")[1].strip(): row for row in table}
    codes = {int(code) for codes in rows for code in codes.split(",")}
    errors = {kind.exit_code for kind in vars(candidates.common.errors).values() if isinstance(kind, type)}
    assert codes == {0, *errors, 70, 130, 141, 143}
    assert codes == {int(code) for code in re.findall(r"\b\d+\b", EXIT_CODES.format(failed="\n  1 some failed\n  "))}
    failing = {
        command for command in COMMANDS if re.search(r"^  0 done\s+1 ", run(command, "--help-all").stdout, re.MULTILINE)
    }
    assert set(re.findall(r"`((?:mbr|pear)[a-z-]*)`", rows["1"])) == failing


def test_the_notebook_becomes_a_page_with_its_code_and_outputs() -> None:
    notebook_page = runpy.run_path(str(ROOT / "docs" / "_site" / "notebook.py"))["notebook_page"]
    text = notebook_page(ROOT / "docs" / "tour.ipynb")
    assert text.startswith("# From a sentence to a tuned recipe\n")
    assert len(blocks(text, "python")) == 10
    assert len(blocks(text, "text")) + text.count('<div class="notebook-output"><table class="notebook">') == 10
    assert "Die alte Frau lebt" in text


def test_the_picture_is_up_to_date() -> None:
    from benchmarks.picture import draw

    record = json.loads(SAMPLE.read_text(encoding="utf-8").splitlines()[1])
    assert draw(record["source"], record["candidates"]) == page("docs/matrix.svg")


@pytest.mark.one_world
def test_the_walk_of_a_sentence_is_up_to_date(tmp_path: Path) -> None:
    """Its words; `python -m benchmarks.walk` renews it."""

    def words(picture: str) -> list[str]:
        return re.findall(r">([^<>]*[a-z]{3}[^<>]*)</text>", picture)

    target = tmp_path / "walk.svg"
    program = [sys.executable, "-m", "benchmarks.walk", "--output", target]  # a process of its own reads SAME_ON_X86
    subprocess.run(program, cwd=ROOT, check=True, capture_output=True)
    drawn, kept = words(target.read_text(encoding="utf-8")), words(page("docs/walk.svg"))
    if drawn != kept and other_processor():
        pytest.skip(f"the choice differs: {other_processor()}")
    assert drawn == kept


@pytest.mark.one_world
def test_the_first_example_chooses_another_candidate_than_the_beam(tmp_path: Path) -> None:
    """README and start page say so, and README quotes the beam's best."""
    from benchmarks.walk import SOURCE

    shown = f'echo "{SOURCE}" | mbr-decode --nbest 100'
    assert shown in page("README.md")
    assert shown in page("docs/index.md")
    printed = run_step(Step(f"{shown} --save-candidates lists.jsonl --format jsonl"), tmp_path)
    choice = json.loads(printed)
    first = json.loads((tmp_path / "lists.jsonl").read_text(encoding="utf-8"))["candidates"][0]["text"]
    (quoted,) = re.findall(r"The beam's best candidate, `(.*?)`, does not:", page("README.md"))
    if (quoted != first or not choice["position"]) and other_processor():
        pytest.skip(f"the beam differs: {other_processor()}")
    assert choice["position"] > 0, "the choice is the beam's best: take another example (benchmarks/walk.py)"
    assert quoted == first
    assert f">{first} (the beam&#x27;s best)</text>" in page("docs/walk.svg")


def test_pictures_follow_the_readers_light_or_dark_mode() -> None:
    for file in (ROOT / "docs").glob("*.svg"):
        assert "@media (prefers-color-scheme:dark)" in file.read_text(encoding="utf-8"), file.name
