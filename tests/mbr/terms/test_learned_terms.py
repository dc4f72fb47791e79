"""Learned metrics as terms, in Python and through mbr-decode, whose recipe is saved and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from candidates import CandidateList
from candidates.common.errors import ModelError
from mbr import Recipe, TermSpec, get_utility, open_decoder, rerank
from tests.conftest import Run, write_jsonl
from tests.mbr.utilities.test_learned import SOURCE, TEXTS, opened


@pytest.mark.parametrize("name", ["comet", "bleurt", "cometkiwi"])
def test_a_learned_metric_is_a_term(name: str, tiny_metrics: dict[str, Path]) -> None:
    model = {name: str(tiny_metrics[name])}
    decision = rerank(SOURCE, TEXTS, "chrf", add={name: 30.0}, add_model=model, device="cpu")
    plain = rerank(SOURCE, TEXTS, "chrf")
    with opened(name, tiny_metrics) as utility:
        alone = rerank(SOURCE, TEXTS, utility)
    np.testing.assert_allclose(decision.terms[name], alone.expected, atol=1e-4)
    np.testing.assert_allclose(decision.scores, plain.expected + 30.0 * alone.expected, atol=1e-2)


def test_a_model_that_is_utility_and_term_is_loaded_once(tiny_metrics: dict[str, Path]) -> None:
    options = {"model": str(tiny_metrics["comet"])}
    recipe = Recipe("comet", options, terms=(TermSpec("comet", 1.0, options),))
    with open_decoder(recipe, runtime={"device": "cpu"}) as decoder:
        assert decoder.terms[0].term.utility is decoder.utility  # type: ignore[attr-defined]
        ((decision,),) = decoder.windows([CandidateList.of(SOURCE, TEXTS)])
    np.testing.assert_allclose(decision.scores, 2 * decision.expected, atol=1e-5)


@pytest.mark.one_world
def test_an_encoder_that_is_another_metrics_is_refused(tiny_metrics: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="not that of BLEURT"):
        get_utility("bleurt", model=tiny_metrics["bleurt"], encoder=tiny_metrics["comet"] / "encoder")


def test_the_command_decodes_with_terms_and_saves_the_recipe(
    tiny_metrics: dict[str, Path], tmp_path: Path, warm: Run
) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "source": SOURCE, "candidates": TEXTS}])
    model = f"comet={tiny_metrics['comet']}"
    words = (
        "--utility",
        "chrf",
        "--add",
        "comet=40",
        "--add-model",
        model,
        "--candidates",
        "l.jsonl",
        "--device",
        "cpu",
    )
    result = warm("mbr-decode", *words)
    assert result.returncode == 0, result.stderr
    added = {"add": {"comet": 40.0}, "add_model": {"comet": str(tiny_metrics["comet"])}}
    assert result.stdout == rerank(SOURCE, TEXTS, "chrf", **added, device="cpu").text + "\n"
    assert "MBR|utility:chrf|strategy:full|" in result.stderr
    assert "|add.comet:40.0|add.comet.model:comet@" in result.stderr
    dry = warm("mbr-decode", *words, "--dry-run")
    assert "pairs       25 (about" in dry.stdout
    assert warm("mbr-decode", *words, "-o", "one.txt").returncode == 0
    again = warm("mbr-decode", "--config", "one.txt.run.yaml", "-o", "two.txt")
    assert again.returncode == 0, again.stderr
    printed = warm("mbr-decode", *words, "--print-recipe")
    (tmp_path / "recipe.yaml").write_text(printed.stdout)
    third = warm(
        "mbr-decode", "--recipe", "recipe.yaml", "--candidates", "l.jsonl", "--device", "cpu", "-o", "three.txt"
    )
    assert third.returncode == 0, third.stderr
    assert {(tmp_path / name).read_text() for name in ("one.txt", "two.txt", "three.txt")} == {result.stdout}
    signatures = {text.stderr.splitlines()[-1] for text in (result, again, third)}
    assert len(signatures) == 1
