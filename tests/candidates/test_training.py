"""Training of small translation models: the split, the network, its export, and runs that are cut in two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError
from candidates.training.split import PARTS, part_of, read_pairs
from tests.conftest import DATA

pytestmark = pytest.mark.one_world

TATOEBA = DATA / "tatoeba" / "deu-eng.tsv.gz"
THINGS = [("cats", "Katzen"), ("dogs", "Hunde"), ("books", "Bücher")]
PAIRS = [(f"I have {n} {thing}.", f"Ich habe {n} {ding}.") for n in range(2, 40) for thing, ding in THINGS]


def test_a_source_has_one_part_whatever_its_dress() -> None:
    for text in ("Tom is here.", "Where are you from?", "¡Hola!"):
        parts = {part_of(dressed) for dressed in (text, text.upper(), f"  {text[:-1]} ?!", text.replace(" ", "  "))}
        assert len(parts) == 1


def test_the_split_is_pinned() -> None:
    """Models and lists made with it are out in the world: it must never change."""
    parts = {number: part_of(f"sentence {number}") for number in range(60)}
    assert [number for number, part in parts.items() if part == "unseen"] == [
        2, 7, 8, 23, 26, 29, 33, 35, 36, 37, 48, 52, 55, 57,
    ]  # fmt: skip
    assert [number for number, part in parts.items() if part in ("test", "dev")] == [44, 51]


@pytest.mark.skipif(not TATOEBA.exists(), reason="needs ../shared/data or MBR_DATA")
def test_the_parts_of_tatoeba_are_large_enough_and_share_no_source() -> None:
    parts = {part: list(read_pairs(TATOEBA, part)) for part in PARTS}
    sources = {part: {source for source, _ in pairs} for part, pairs in parts.items()}
    assert sum(map(len, parts.values())) == 168_043
    assert len(sources["test"]) >= 1_500
    assert len(sources["dev"]) >= 1_500
    assert len(sources["unseen"]) >= 20_000
    for part in PARTS:
        for other in PARTS[: PARTS.index(part)]:
            assert not sources[part] & sources[other]


def test_a_line_that_is_no_pair_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("a\tb\nc\n", encoding="utf-8")
    with pytest.raises(InputError, match="pairs.tsv, line 2: 1 column or"):
        [pair for part in PARTS for pair in read_pairs(file, part)]


def recipe(**changes):  # type: ignore[no-untyped-def]
    from candidates.training.loop import Recipe

    sizes = {"batch_tokens": 256, "vocabulary": 320, "width": 64, "encoder_layers": 1, "decoder_layers": 1}
    return Recipe(**{"steps": 6, "warm_up": 2, **sizes, **changes})


def test_batches_hold_every_pair_once_and_sources_of_one_length() -> None:
    from candidates.training.loop import PAD, batches

    pairs = [([5] * (1 + k % 3) + [2], [1, 10 + k, 2][: 2 + k % 2]) for k in range(50)]
    made = batches(pairs, 40, seed="1")
    rows = [
        (source.tolist(), [id for id in target.tolist() if id != PAD])
        for sources, targets in made
        for source, target in zip(sources, targets, strict=True)
    ]
    assert sorted(rows) == sorted(pairs)
    assert all(targets.numel() <= 40 for _, targets in made)


def test_the_orthogonal_step_has_singular_values_near_one() -> None:
    import torch

    from candidates.training.muon import orthogonal

    for shape in ((3, 16, 16), (2, 8, 32), (2, 32, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(1))))
        assert 0.3 < values.min() < values.max() < 1.3


@pytest.mark.parametrize("changes", [{}, {"sampling": 0.3, "precision": "bf16"}])
def test_a_training_cut_in_two_ends_where_a_whole_one_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    import torch

    from candidates.training.loop import train

    torch.set_num_threads(1)
    dev = PAIRS[:9]
    whole = train(recipe(**changes), PAIRS, dev, tmp_path / "whole", every=2)
    killed = tmp_path / "killed"
    assert _stop_after(4, killed, dev, recipe(**changes)) == 4
    resumed = train(recipe(**changes), PAIRS, dev, killed, every=2)
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name
    losses = [json.loads(line)["dev_loss"] for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]


def _stop_after(steps: int, work: Path, dev: list[tuple[str, str]], recipe: Any) -> int:
    """Train as usual, and break off when that many steps are saved."""
    import torch

    from candidates.training import loop

    class Stop(Exception):
        pass

    save = loop._Run.save

    def save_and_stop(self: loop._Run) -> None:
        save(self)
        if self.step == steps:
            raise Stop

    loop._Run.save = save_and_stop  # type: ignore[method-assign]
    try:
        with pytest.raises(Stop):
            loop.train(recipe, PAIRS, dev, work, every=2)
    finally:
        loop._Run.save = save  # type: ignore[method-assign]
    place: int = torch.load(work / "checkpoint.pt", weights_only=True)["place"][0]
    return place


def test_an_epoch_has_segmentations_of_its_own_until_the_rate_falls(tmp_path: Path) -> None:
    from candidates.training.loop import _Corpus, _tokenizer

    sampled = recipe(sampling=0.3, steps=10)
    corpus = _Corpus(sampled, _tokenizer(sampled, PAIRS, tmp_path / "sentencepiece.model"), PAIRS)
    first, again, second = (corpus.of_epoch(epoch, first_step=0) for epoch in (0, 0, 1))
    assert first == again
    assert first not in (second, corpus.best)
    assert corpus.of_epoch(0, first_step=9) == corpus.best


def test_the_exported_model_scores_as_the_network_does(tmp_path: Path) -> None:
    import ctranslate2
    import sentencepiece
    import torch

    from candidates.training.export import write_translator
    from candidates.training.loop import train

    model = train(recipe(steps=2), PAIRS, PAIRS[:9], tmp_path / "work", every=2)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "work" / "sentencepiece.model"))
    for quantization, tolerance in (("float32", 1e-4), ("int8", 0.3)):
        folder = tmp_path / quantization
        write_translator(model, tmp_path / "work" / "sentencepiece.model", folder, quantization=quantization)
        assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
        translator = ctranslate2.Translator(str(folder), intra_threads=1)
        for source, target in [*PAIRS[:3], ("Wörter nie gesehen 猫", "?")]:
            result = translator.score_batch(
                [pieces.encode(source, out_type=str)], [pieces.encode(target, out_type=str)]
            )[0]
            ids = torch.tensor([[*pieces.encode(source), 2]]), torch.tensor([[1, *pieces.encode(target), 2]])
            with torch.no_grad():
                logprobs = model(ids[0], ids[1][:, :-1]).log_softmax(-1)[0]
            expected = logprobs.gather(1, ids[1][0, 1:, None])[:, 0].tolist()
            differences = [abs(a - b) for a, b in zip(result.log_probs, expected, strict=True)]
            assert sum(differences) / len(differences) < tolerance


def test_a_larger_model_starts_with_the_predictions_of_a_smaller_one(tmp_path: Path) -> None:
    import torch

    from candidates.common.errors import ModelError
    from candidates.training.export import write_translator
    from candidates.training.loop import train

    small = train(recipe(steps=2), PAIRS, PAIRS[:9], tmp_path / "small", every=2)
    folder = tmp_path / "model"
    write_translator(small, tmp_path / "small" / "sentencepiece.model", folder, quantization="float32")
    begun = recipe(steps=1, warm_up=1000, matrix_rate=0.0, other_rate=0.0, encoder_layers=3, start=str(folder))
    grown = train(begun, PAIRS, PAIRS[:9], tmp_path / "grown", every=1)
    ids = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8, 9]])
    with torch.no_grad():
        assert torch.allclose(small(*ids), grown(*ids), atol=1e-5)
    shorter = recipe(steps=1, encoder_layers=1, decoder_layers=1, width=128, start=str(folder))
    with pytest.raises(ModelError, match="do not fit"):
        train(shorter, PAIRS, PAIRS[:9], tmp_path / "other", every=1)
