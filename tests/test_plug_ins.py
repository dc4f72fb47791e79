"""A utility, strategy, term, guard and back-end of one's own, each one file, by name through the real commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, write_jsonl
from tests.support.plug_in import write_plug_in
from tests.support.sample_plug_ins import PLUG_INS

pytestmark = pytest.mark.one_world

# Most e: the first; most s: the third; most marks ! the second, ? the last.
TEXTS = ["eeee Tee e", "Tee! Tee!! e", "sss Tasse ss", "Nein? was? ee??"]
Environment = dict[str, str]
Install = Callable[..., Environment]


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Puts (name, code, group, target) into a folder as pip would, and gives the environment that has them."""

    def put(*plug_ins: tuple[str, str, str, str]) -> Environment:
        folder = tmp_path_factory.mktemp("site")
        for name, code, group, target in plug_ins:
            write_plug_in(folder, name, code, group, target)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path}

    return put


@pytest.fixture
def env(install: Install) -> Environment:
    return install(*((name, *rest) for name, rest in PLUG_INS.items()))


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "lists.jsonl", [{"source": "A tea.", "candidates": TEXTS}])


def chosen(run: Run, env: Environment, *words: str) -> dict[str, Any]:
    """The one decision of mbr-decode on the lists."""
    result = run("mbr-decode", "--candidates", "lists.jsonl", "--format", "jsonl", *words, env=env)
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert isinstance(record, dict)
    return {**record, "stderr": result.stderr}


def compare(run: Run, env: Environment, *words: str) -> Any:
    return run("mbr-compare", "--judge", "chrf", "--study", "0", "--bootstrap", "0", "--trials", "0", "--no-cache",
               "-o", "report", *words, env=env)  # fmt: skip


@pytest.fixture
def choices(run: Run, env: Environment, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """What each setting of mbr-compare chooses from the first list, by label."""

    def get(*words: str, lists: tuple[str, ...] = ("--candidates", "lists.jsonl")) -> dict[str, str]:
        result = compare(run, env, *lists, *words)
        assert result.returncode == 0, result.stderr
        found: dict[str, str] = json.loads((tmp_path / "report" / "report.json").read_text())["choices"][0]["chosen"]
        return found

    return get


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--utility", "letters"], 0),
        (["--utility", "letters", "--option", "letter=s"], 2),
        (["--utility", "letters", "--option", "letter=a", "--option", "fold=true"], 2),
        (["--utility", "letters", "--strategy", "window"], 0),
        (["--utility", "letters", "--strategy", "window:end=last"], 3),
        (["--utility", "letters", "--strategy", "window:of=3:end=last"], 1),
        (["--utility", "letters", "--add", "marks=1"], 1),
        (["--utility", "letters", "--add", "marks=10,mark=?"], 3),
        (["--utility", "letters", "--strategy", "window", "--add", "marks=10,mark=?"], 0),
        (["--utility", "letters", "--strategy", "window", "--add", "marks=10"], 1),
        (["--utility", "none", "--add", "marks=1,mark=?"], 3),
        (["--utility", "none", "--add", "letters=1,letter=s"], 2),
        (["--utility", "letters", "--option", "letter=s", "--prefilter", "marks:2"], 0),
    ],
)
@pytest.mark.usefixtures("lists")
def test_mbr_decode_chooses_by_plug_ins_and_their_options(
    run: Run, env: Environment, words: list[str], place: int
) -> None:
    assert chosen(run, env, *words)["text"] == TEXTS[place]


@pytest.mark.usefixtures("lists")
def test_a_guard_of_one_s_own_drops_candidates(run: Run, env: Environment) -> None:
    decision = chosen(run, env, "--utility", "letters", "--require", "questions")
    assert (decision["text"], decision["dropped_by"]) == (TEXTS[0], {"questions": 1})
    assert "|guards:questions|guards.questions.mark:?|" in decision["stderr"]
    decision = chosen(run, env, "--utility", "letters", "--require", "questions:mark=e", "--option", "letter=!")
    assert (decision["text"], decision["dropped"]) == (TEXTS[2], 2)


@pytest.mark.usefixtures("lists")
def test_a_decision_has_the_scores_and_passes_of_the_plug_ins(run: Run, env: Environment) -> None:
    decision = chosen(
        run, env, "--utility", "letters", "--strategy", "window:of=3", "--add", "marks=2,mark=!", "--option", "letter=e"
    )
    assert (decision["expected_utility"], decision["terms"], decision["score"]) == (5.0, {"marks": 3.0}, 11.0)
    assert decision["passes"] == 3 * 2
    assert "|letter:e|fold:false|strategy:window|of:3|end:first|" in decision["stderr"]
    assert "|add.marks:2.0|add.marks.mark:!|" in decision["stderr"]


def test_mbr_compare_chooses_by_plug_ins_and_their_options(
    tmp_path: Path, choices: Callable[..., dict[str, str]]
) -> None:
    write_jsonl(tmp_path / "lists.jsonl", [{"source": "A tea.", "candidates": TEXTS, "references": ["Tee"]}] * 2)
    words = {
        "plain": "letters",
        "option": "letters,letter=s",
        "strategy": "letters,strategy=window:of=3:end=last",
        "term": "letters,add=marks:1",
        "term option": "letters,add=marks:10,add-option=marks:mark:?",
    }
    chosen = choices("--utility", *(f"{word},label={label}" for label, word in words.items()))
    assert {label: TEXTS.index(chosen[label]) for label in words} == {
        "plain": 0, "option": 2, "strategy": 1, "term": 1, "term option": 3,
    }  # fmt: skip


def test_mbr_compare_combines_a_strategy_given_apart_with_each_utility(
    tmp_path: Path, choices: Callable[..., dict[str, str]]
) -> None:
    write_jsonl(tmp_path / "lists.jsonl", [{"source": "A tea.", "candidates": TEXTS, "references": ["Tee"]}] * 2)
    chosen = choices("--utility", "letters", "letters,letter=s,label=s", "--strategy", "full", "window:end=last")
    assert {label: TEXTS.index(text) for label, text in chosen.items() if "window" in label or "full" in label} == {
        "letters full": 0, "letters window": 3, "s full": 2, "s window": 2,
    }  # fmt: skip


BACKEND_WORDS = ["--translator-backend", "turned", "--translator-option", "ending='?'"]
BACKEND_WORDS += ["--translator-option", "times=2", "--nbest", "2"]


def test_a_back_end_makes_the_lists_of_every_command(
    run: Run, env: Environment, tmp_path: Path, choices: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "en.txt").write_text("one two\nthree\n", encoding="utf-8")
    (tmp_path / "de.txt").write_text("eins zwei\ndrei\n", encoding="utf-8")
    made = run("mbr-generate", *BACKEND_WORDS, "-o", "made.jsonl", stdin="one two\nthree\n", env=env)
    assert made.returncode == 0, made.stderr
    records = [json.loads(line) for line in (tmp_path / "made.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["candidates"] for record in records] == [["one two??", "two one??"], ["three??", "three??"]]
    decided = run("mbr-decode", *BACKEND_WORDS, "--utility", "none", "--add", "marks=1,mark=o o", "--sources", "en.txt",
                  env=env)  # fmt: skip
    assert (decided.returncode, decided.stdout) == (0, "two one??\nthree??\n"), decided.stderr
    assert "|translator:en-de|backend:turned|" in decided.stderr
    assert "|ending:?|times:2|" in decided.stderr
    lists = ("--sources", "en.txt", "--references", "de.txt", *BACKEND_WORDS)
    found = choices("--utility", "chrf,add=marks:1000,add-option=marks:mark:o o,label=marks", lists=lists)
    assert found["marks"] == "two one??"


@pytest.mark.usefixtures("lists")
def test_a_printed_recipe_with_plug_ins_gives_the_same_bytes_and_signature(
    run: Run, env: Environment, tmp_path: Path
) -> None:
    words = ["--utility", "letters", "--option", "letter=s", "--strategy", "window:of=3:end=last"]
    words += ["--add", "marks=0.5,mark=?", "--prefilter", "letters:3"]
    printed = run("mbr-decode", "--candidates", "lists.jsonl", *words, "--print-recipe", env=env)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "mine.yaml").write_text(printed.stdout, encoding="utf-8")
    first, again = chosen(run, env, *words), chosen(run, env, "--recipe", "mine.yaml")
    assert first.pop("stderr").splitlines()[-1] == again.pop("stderr").splitlines()[-1]
    assert first == again
    reprinted = run("mbr-decode", "--candidates", "lists.jsonl", "--recipe", "mine.yaml", "--print-recipe", env=env)
    assert reprinted.stdout == printed.stdout
    stronger = chosen(
        run, env, "--recipe", "mine.yaml", "--option", "letter=e", "--strategy", "full", "--add", "marks=0"
    )
    assert stronger["text"] == TEXTS[0]
    saved = run("mbr-decode", "--candidates", "lists.jsonl", *words, "-o", "best.txt", env=env)
    assert saved.returncode == 0, saved.stderr
    repeated = run("mbr-decode", "--config", "best.txt.run.yaml", "-o", "again.txt", env=env)
    assert repeated.returncode == 0, repeated.stderr
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "best.txt").read_bytes()


@pytest.mark.usefixtures("lists")
def test_a_signature_with_plug_ins_reads_back_as_the_recipe(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbr.recipe import Recipe, TermSpec

    monkeypatch.syspath_prepend(env["PYTHONPATH"].split(os.pathsep)[0])
    recipe = Recipe(
        "letters", {"letter": "s", "fold": True}, strategy="window", strategy_options={"end": "last"},
        terms=(TermSpec("marks", 0.5, {"mark": "."}),),
    )  # fmt: skip
    assert recipe.complete().strategy_options == {"of": 2, "end": "last"}
    assert Recipe.from_signature(str(recipe.signature())) == recipe.complete()
    default = Recipe("letters", strategy="window")
    assert Recipe.from_signature(str(default.signature())) == default.complete()


def test_the_list_of_utilities_shows_utilities_and_terms_of_plug_ins(run: Run, env: Environment) -> None:
    result = run("mbr-decode", "--list-utilities", env=env)
    assert result.returncode == 0, result.stderr
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines()}
    assert lines["letters"] == "counts a letter pairwise nothing"
    assert lines["marks"] == "counts a mark term (--add) nothing"


REFUSED = [
    (
        "mbr-decode",
        "--utility letters --option colour=red",
        "utility 'letters' has no option 'colour' (it takes letter",
    ),
    ("mbr-compare", "--utility letters,colour=red", "utility 'letters' has no option 'colour' (it takes letter, fold)"),
    ("both", "--utility letters --strategy window:colour=red", "'window' has no option 'colour' (it takes of, end)"),
    (
        "mbr-compare",
        "--utility letters,strategy=window:colour=red",
        "'window' has no option 'colour' (it takes of, end)",
    ),
    ("both", "--utility letters --strategy window:7", "strategy 'window:7': window takes no number"),
    ("mbr-decode", "--utility letters --strategy window --budget 9", "strategy 'window' has no option 'budget'"),
    ("mbr-decode", "--utility chrf --add marks=1,colour=red", "term 'marks' has no option 'colour' (it takes mark)"),
    ("mbr-compare", "--utility chrf,add=marks:1,add-option=marks:colour:red", "term 'marks' has no option 'colour'"),
    ("mbr-compare", "--utility chrf,add=marks:1,add-option=marks", "add-option='marks' is not a NAME:KEY:VALUE"),
    ("mbr-compare", "--utility chrf,add-option=marks:mark:?", "'marks', which is not added"),
    ("both", "--utility numbers", "utility 'numbers' is unknown; expected one of pear, "),
    ("mbr-decode", "--utility chrf --add numbers=1", "term 'numbers' is unknown; expected one of logprob, "),
    ("mbr-compare", "--utility chrf,add=numbers:1", "term 'numbers' is unknown; expected one of logprob, "),
    ("both", "--utility needy", "utility 'needy' needs the option 'key', which has no default; give it (key=VALUE)"),
    ("mbr-decode", "--utility chrf --add needy=1", "term 'needy' needs the option 'key'"),
]
NEEDY = (
    "needy",
    "from mbr import QualityUtility\nclass Needy(QualityUtility):\n    name = 'needy'\n"
    "    def __init__(self, *, key): ...\n    def score_each(self, rows): ...\n",
    "mbr_decode.utilities",
    "needy:Needy",
)


@pytest.mark.parametrize(("command", "words", "message"), REFUSED)
@pytest.mark.usefixtures("lists")
def test_what_a_plug_in_does_not_take_is_refused_before_any_work(
    run: Run, install: Install, command: str, words: str, message: str
) -> None:
    env = install(*((name, *rest) for name, rest in PLUG_INS.items()), NEEDY)
    results = []
    if command != "mbr-compare":
        results.append(run("mbr-decode", "--candidates", "lists.jsonl", *words.split(), env=env))
    if command != "mbr-decode":
        results.append(compare(run, env, "--candidates", "lists.jsonl", *words.split()))
    for result in results:
        assert result.returncode == 2, result.stderr
        assert message in result.stderr
        assert "Traceback" not in result.stderr


BROKEN = [
    (
        "import nowhere_at_all",
        "plug-in 'ruined' (ruined:X) cannot be loaded: No module named 'nowhere_at_all'; repair ",
    ),
    ("1 / 0", "plug-in 'ruined' (ruined:X) cannot be loaded: division by zero"),
    ("", "plug-in 'ruined' (ruined:X) cannot be loaded: module 'ruined' has no attribute 'X'"),
    ("X = 7", "'ruined' is 7, "),
]
# The kind of plug-in, and how mbr-decode and mbr-compare use it.
USES = {
    "mbr_decode.utilities": ("utility", "--utility ruined", "--utility ruined"),
    "mbr_decode.strategies": ("strategy", "--utility chrf --strategy ruined", "--utility chrf,strategy=ruined"),
    "mbr_decode.terms": ("term", "--utility chrf --add ruined=1", "--utility chrf,add=ruined:1"),
    "mbr_decode.backends": ("back-end", "--translator-backend ruined", "--translator-backend ruined"),
}


@pytest.mark.parametrize("group", USES)
@pytest.mark.parametrize(("code", "message"), BROKEN)
@pytest.mark.usefixtures("lists")
def test_a_broken_plug_in_is_named_and_ends_with_code_6(
    run: Run, install: Install, tmp_path: Path, group: str, code: str, message: str
) -> None:
    env = install(("ruined", code + "\n", group, "ruined:X"))
    kind, words, compare_words = USES[group]
    (tmp_path / "en.txt").write_text("one two\n", encoding="utf-8")
    lists = ["--candidates", "lists.jsonl"] if kind != "back-end" else ["--sources", "en.txt"]
    results = [run("mbr-decode", *lists, *words.split(), env=env), compare(run, env, *lists, *compare_words.split())]
    for result in results:
        assert result.returncode == 6, result.stderr
        assert f"the {kind} {message}" in result.stderr
        assert len(result.stderr.splitlines()) == 1, "a sentence, no traceback"
    if kind in ("utility", "term"):
        listed = run("mbr-decode", "--list-utilities", env=env)
        assert listed.returncode == 0, listed.stderr
        (line,) = [line for line in listed.stdout.splitlines() if line.startswith("ruined")]
        assert "a broken plug-in" in line
        assert message in line


@pytest.mark.usefixtures("lists")
def test_a_broken_plug_in_disturbs_nothing_else(run: Run, install: Install) -> None:
    env = install(*((f"ruined{k}", "1 / 0\n", group, f"ruined{k}:X") for k, group in enumerate(USES)))
    assert chosen(run, env, "--utility", "chrf")["text"] in TEXTS
