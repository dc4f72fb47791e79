"""The same choice, byte for byte, in one step, in two steps, in Python, and with a recipe that was printed before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from candidates import Settings, open_generator, read_lists
from mbr import Recipe, decode, read_recipe, rerank
from tests.conftest import Run
from tests.support.shipped_recipe import LOGPROB

pytestmark = pytest.mark.one_world

SENTENCES = (
    "Tom told me that he wanted to meet my parents.\n"
    "The old woman lives alone in a small house by the lake.\n"
    "Be nice.\n"
    "I have never seen such a big dog before. Where did you buy it?\n"
)


def jsonl_of(decisions: object) -> str:
    return "".join(json.dumps(decision.record(), ensure_ascii=False) + "\n" for decision in decisions)  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
@pytest.mark.parametrize("utility", [None, "chrf"])
def test_one_step_is_two_steps_is_python(warm: Run, tmp_path: Path, method: str, utility: str | None) -> None:
    words = ["--format", "jsonl", *(["--utility", utility] if utility else [])]
    making = ["--nbest", "12", "--method", method]
    one = warm("mbr-decode", *making, *words, stdin=SENTENCES)
    assert one.returncode == 0, one.stderr
    lists = warm("mbr-generate", *making, stdin=SENTENCES)
    two = warm("mbr-decode", "--candidates", "-", *words, stdin=lists.stdout)
    assert two.returncode == 0, two.stderr
    assert two.stdout == one.stdout
    with open_generator(Settings(nbest=12, method=method)) as generator:  # type: ignore[arg-type]
        python = jsonl_of(decode(generator.generate(SENTENCES.splitlines()), utility))
    assert python == one.stdout
    (tmp_path / "lists.jsonl").write_text(lists.stdout, encoding="utf-8")
    assert jsonl_of(decode(read_lists(tmp_path / "lists.jsonl"), utility)) == one.stdout
    weights = "uniform" if method == "beam" else "count"
    for run in (one, two):
        assert f"|weights:{weights}|" in run.stderr
        assert (f"|add.logprob:{LOGPROB}|" in run.stderr) == (method == "beam" and utility is None)


@pytest.mark.parametrize(
    "words", [(), ("--utility", "chrf", "--add", "length=-1"), ("--strategy", "half", "--seed", "7")]
)
def test_a_printed_recipe_gives_the_same_signature_and_bytes(warm: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    lists = warm("mbr-generate", "--nbest", "12", "-o", "lists.jsonl", stdin=SENTENCES)
    assert lists.returncode == 0, lists.stderr
    plain = warm("mbr-decode", "--candidates", "lists.jsonl", "--format", "jsonl", *words)
    printed = warm("mbr-decode", "--candidates", "lists.jsonl", *words, "--print-recipe")
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "recipe.yaml").write_text(printed.stdout, encoding="utf-8")
    again = warm("mbr-decode", "--candidates", "lists.jsonl", "--format", "jsonl", "--recipe", "recipe.yaml")
    assert again.returncode == 0, again.stderr
    assert again.stdout == plain.stdout
    assert again.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    signature = printed.stdout.splitlines()[0].removeprefix("# ")
    assert Recipe.from_signature(signature) == read_recipe(tmp_path / "recipe.yaml").complete()


def test_a_recipe_by_name_is_overridden_by_flags(warm: Run, tmp_path: Path) -> None:
    plain = warm("mbr-decode", "--nbest", "5", "--recipe", "en-de", "--print-recipe", stdin="")
    changed = warm(
        "mbr-decode", "--nbest", "5", "--recipe", "en-de", "--add", "logprob=0", "--strategy", "half", "--print-recipe"
    )
    assert f"logprob: {LOGPROB}" in plain.stdout
    assert "logprob" not in changed.stdout
    assert "strategy: half" in changed.stdout


def test_lists_of_another_origin_get_the_plain_defaults(warm: Run, tmp_path: Path) -> None:
    made = warm("mbr-generate", "--nbest", "5", stdin=SENTENCES)
    records = [json.loads(line) for line in made.stdout.splitlines()]
    assert {record["origin"]["model"].partition("@")[0] for record in records} == {"en-de"}
    for record in records:
        record["origin"]["model"] = "somebody's@1234"
    lines = "".join(json.dumps(record) + "\n" for record in records)
    for text in (lines, '{"bad"\n' + lines):  # also where the first record is unusable
        result = warm("mbr-decode", "--candidates", "-", "--print-recipe", stdin=text)
        assert result.returncode == 0, result.stderr
        assert "|utility:pear|model:pear|" in result.stdout
        assert "weights: uniform" in result.stdout
        assert "terms" not in result.stdout


def test_lists_of_several_origins_are_pointed_out_once(warm: Run) -> None:
    beams, samples = (warm("mbr-generate", "--nbest", "5", "--method", m, stdin=SENTENCES) for m in ("beam", "sample"))
    mixed = warm("mbr-decode", "--candidates", "-", stdin=beams.stdout + samples.stdout)
    assert mixed.returncode == 0, mixed.stderr
    assert mixed.stderr.count("warning") == 1
    assert "segment 0 comes from another translation model or method than the first list" in mixed.stderr
    named = warm("mbr-decode", "--candidates", "-", "--recipe", "en-de", stdin=beams.stdout + samples.stdout)
    assert "warning" not in named.stderr


def test_a_single_list_in_python_is_chosen_like_the_command_chooses(warm: Run) -> None:
    with open_generator(Settings(nbest=12)) as generator:
        (made,) = generator.generate(["I have never seen such a big dog before."])
    command = warm("mbr-decode", "--nbest", "12", stdin="I have never seen such a big dog before.\n")
    (decision,) = decode([made])
    assert decision.text + "\n" == command.stdout
    assert set(decision.terms) == {"logprob", "coverage", "coverage-back", "reverse"}
    assert rerank("A dog runs in the garden.", ["Der Hund ist da.", "Ein Hund läuft im Garten."]).terms == {}
