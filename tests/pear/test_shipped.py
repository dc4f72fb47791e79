"""The PEAR that ships with the package: it loads like any other, knows what it is for, and has learned something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from candidates.backends.models import BUNDLED
from candidates.common.errors import UsageError
from pear.checkpoint import load_checkpoint
from pear.engine import Engine
from pear.shipped import DEFAULT, SHIPPED, Languages, shipped_models
from pear.training.reader import start_from_translators
from tests.conftest import ROOT, Run, write_jsonl


@pytest.fixture(scope="module")
def bundled() -> Iterator[Engine]:
    checkpoint = load_checkpoint(DEFAULT)
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        yield engine


def test_it_is_small_and_has_a_card() -> None:
    folder = shipped_models()[DEFAULT]
    assert folder == SHIPPED / DEFAULT
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 21.5 * 1000 * 1000
    assert {file.name for file in folder.iterdir()} >= {
        "config.json",
        "model.safetensors",
        "README.md",
        "tokenizer.json",
    }


def test_all_that_is_bundled_stays_small() -> None:
    folders = [BUNDLED, SHIPPED, ROOT / "mbr" / "bundled"]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(file.stat().st_size for file in files) <= 40 * 1000 * 1000


def test_the_translation_models_inside_are_the_bundled_ones() -> None:
    """Trained on, they would have to be trained into it again."""
    beginning, _ = start_from_translators(BUNDLED / "en-de", BUNDLED / "de-en")
    inside = load_checkpoint(DEFAULT).network.encoder.state_dict()
    compared = 0
    for name, weight in beginning.state_dict().items():
        if name.startswith(("forward_model.", "backward_model.")):
            difference = (inside[name].float() - weight).norm() / weight.norm().clamp_min(1e-6)
            assert difference < 0.01, name
            compared += 1
    assert compared > 100


def test_a_folder_with_the_bundled_name_is_named_by_its_path(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe names the bundled model: a folder that happens to be there must not take its place."""
    (tmp_path / DEFAULT).symlink_to(ours)
    monkeypatch.chdir(tmp_path)
    bundled, users = load_checkpoint(DEFAULT), load_checkpoint(f"./{DEFAULT}")
    assert bundled.name != users.name
    assert users.network.encoder.config.hidden_size != bundled.network.encoder.config.hidden_size


@pytest.mark.parametrize(
    ("source", "better", "worse"),
    [
        ("Tom is reading a book.", "Tom liest ein Buch.", "Tom liest."),
        ("She bought two tickets.", "Sie hat zwei Fahrkarten gekauft.", "Der Hund schläft im Garten."),
        ("I don't know where he lives.", "Ich weiß nicht, wo er wohnt.", "I don't know where he lives."),
        ("The weather is nice today.", "Das Wetter ist heute schön.", "Das Wetter Wetter ist ist heute heute schön."),
    ],
)
def test_it_tells_a_translation_from_damage(bundled: Engine, source: str, better: str, worse: str) -> None:
    forward, backward = bundled.score([(source, better, worse), (source, worse, better)])
    assert forward - backward > 0


def test_texts_may_be_empty_too_long_or_spell_special_tokens(bundled: Engine) -> None:
    """And are scored as alone, whatever is beside them."""
    odd = ["", "Ein </s> Hund.", "<pad>", "Ein <s> Hund <pad>", "</s></s>", "Der Hund. " * 99, "Der Hund."]
    rows = [(source, a, b) for source in ("A dog.", "A </s> dog.", "") for a in odd for b in odd[2:]]
    together = bundled.score(rows)
    assert together == pytest.approx([float(bundled.score([row])[0]) for row in rows], abs=1e-4)


@pytest.mark.parametrize(
    ("source", "candidates", "expected"),
    [
        ("The dog is in the house.", ["Der Hund ist im Haus.", "Ein Hund ist in dem Haus."], "en-de"),
        ("The dog is in the house.", ["Le chien est dans la maison.", "Un chien est dans une maison."], "pear"),
        ("Der Hund ist im Haus.", ["The dog is in the house.", "A dog is in the house."], "pear"),
        ("The dog is in the house.", ["犬は家にいます。"], "pear"),
        ("Собака в доме.", ["Der Hund ist im Haus."], "pear"),
        ("Tom!", ["Tom!"], None),
        ("OK.", ["OK."], None),
        ("", [""], None),
    ],
)
def test_the_languages_name_the_model(source: str, candidates: list[str], expected: str | None) -> None:
    languages = Languages()
    languages.add(source, candidates)
    if expected is None:
        with pytest.raises(UsageError, match="Name the model: en-de .*, pear .*such as chrf"):
            languages.model()
    else:
        assert languages.model() == expected


def test_lists_in_german_are_compared_with_it_and_it_says_so(run: Run, tmp_path: Path) -> None:
    write_jsonl(
        tmp_path / "lists.jsonl",
        [{"source": "Tom is reading a book.", "candidates": ["Tom liest ein Buch.", "Tom liest."]}],
    )
    result = run("mbr-decode", "--candidates", "lists.jsonl", "--device", "cpu")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Tom liest ein Buch.\n"
    assert "bundled en-de PEAR" in result.stderr
    assert "|model:en-de@" in result.stderr


def test_lists_in_other_languages_ask_for_the_released_model(warm: Run, tmp_path: Path) -> None:
    write_jsonl(
        tmp_path / "lists.jsonl",
        [{"source": "The dog is in the house.", "candidates": ["Le chien est dans la maison.", "Un chien est là."]}],
    )
    result = warm("mbr-decode", "--candidates", "lists.jsonl", "--device", "cpu")
    assert result.returncode == 4
    assert "Prosho/pear" in result.stderr
