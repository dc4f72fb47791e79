"""An encoder with two translation models inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from candidates.common.errors import ModelError, UsageError
from pear.checkpoint import Checkpoint
from pear.training.loop import train
from tests.pear.training.runs import ALONE, BUNDLED, GROUPS, log
from tests.support.random_pear import CORPUS

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-4), ("int8", 0.1)])
def test_words_of_both_sides_have_the_translators_own_probabilities(
    quantization: str, tolerance: float, tmp_path: Path
) -> None:
    """Of rows laid out together, with padding, an empty candidate and one that occurs twice."""
    from pear.runtime.reader import Texts
    from pear.training.reader import start_from_translators

    forward, backward, pieces = random_translators(tmp_path, quantization)
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", layers=1, dropout=0.0)
    assert reader.config.num_attention_heads == 2
    rows = [(CORPUS[0], CORPUS[1], CORPUS[2]), (CORPUS[-4], "", CORPUS[0]), (CORPUS[0], CORPUS[2], CORPUS[1])]
    ids, attention = laid_out(rows, tokenizer, reader)
    texts = Texts.of(ids, attention, reader.config)
    assert (len(texts.sources), len(texts.candidates)) == (2, 4)  # each distinct text once
    beside = texts.sources[texts.source_of]
    with torch.no_grad():
        _, _, chances = reader.forward_model(texts.sources, texts.candidates, texts.source_of)
        _, _, source_chances = reader.backward_model(texts.candidates, beside, torch.arange(4))
    flat = torch.cat([torch.zeros(1 + texts.sources.numel() + len(texts.sources)), chances[..., 0].flatten()])
    source_flat = torch.cat([torch.zeros(1), source_chances[..., 0].flatten()])

    def close(found: torch.Tensor, translator: Any, source: str, target: str) -> bool:
        ids = [1, *pieces.encode(target), 2]
        logits = translator(torch.tensor([[*pieces.encode(source), 2]]), torch.tensor([ids[:-1]]))
        expected = logits[0].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
        return float((found - expected).abs().max() / expected.abs().max()) < tolerance

    with torch.no_grad():
        for row, (source, *candidates) in enumerate(rows):
            length = len(pieces.encode(source)) + 1
            begin = 1 + length
            for slot, candidate in enumerate(candidates):
                begin += 1  # the second separator
                end = begin + len(pieces.encode(candidate)) + 1
                assert close(flat[texts.places[row]][begin:end], forward, source, candidate)
                assert close(source_flat[texts.source_places[slot, row]][1 : 1 + length], backward, candidate, source)
                begin = end


def test_states_of_a_row_are_those_it_has_alone(tmp_path: Path) -> None:
    from pear.training.reader import start_from_translators

    random_translators(tmp_path, "float32")
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", dropout=0.0)
    triples = [tuple(CORPUS[k : k + 3]) for k in range(4)] + [(CORPUS[0], CORPUS[1], CORPUS[1]), ("", "", "")]
    pairs = [tuple(CORPUS[k : k + 2]) for k in range(4)]
    for rows in (triples, pairs):
        with torch.inference_mode():
            ids, attention = laid_out(rows, tokenizer, reader)
            together = reader(ids, attention).last_hidden_state
            for row, texts in enumerate(rows):
                alone, present = laid_out([texts], tokenizer, reader)
                expected = reader(alone, present).last_hidden_state[0]
                torch.testing.assert_close(together[row, : len(expected)], expected, atol=1e-5, rtol=1e-4)


def test_a_reader_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    from pear.checkpoint import load_checkpoint, save_checkpoint
    from pear.engine import Engine
    from pear.model import PearNetwork
    from pear.training.reader import start_from_translators
    from tests.pear.training.processes import HEAD

    random_translators(tmp_path, "int8")
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", layers=1, dropout=0.0)
    checkpoint = Checkpoint(PearNetwork(reader, HEAD).eval(), tokenizer, "reader")
    save_checkpoint(checkpoint, tmp_path / "whole")
    save_checkpoint(checkpoint, tmp_path / "half", half=True)
    rows = [tuple(CORPUS[k : k + 3]) for k in range(4)]
    whole, half = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "half")
    scores = []
    for each in (checkpoint, whole, half):
        with Engine(each.network, each.tokenizer, device="cpu") as engine:
            scores.append(engine.score(rows))
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[0] == pytest.approx(scores[2], abs=1e-2)
    inside = {name: weight for name, weight in checkpoint.network.state_dict().items() if "_model." in name}
    for name, weight in half.network.state_dict().items():  # what was rounded to int8 before loses nothing
        if name in inside and weight.dim() == 2 and not name.endswith("positions.weight"):
            torch.testing.assert_close(weight, inside[name], rtol=1e-4, atol=0)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.45 * sizes[0]
    assert all(
        weight.requires_grad for weight in load_checkpoint(tmp_path / "half", trainable=True).network.parameters()
    )


def test_translators_of_different_vocabularies_are_refused(tmp_path: Path) -> None:
    from pear.training.reader import start_from_translators

    random_translators(tmp_path, "float32")
    with pytest.raises(ModelError, match="different vocabularies"):
        start_from_translators(tmp_path / "there", BUNDLED)


def test_every_weight_takes_part_where_rows_have_one_candidate(tmp_path: Path) -> None:
    """Else processes that learn together wait for its gradient."""
    from pear.training.reader import start_from_translators

    random_translators(tmp_path, "float32")
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", dropout=0.0)
    reader(*laid_out([tuple(CORPUS[:2])], tokenizer, reader)).last_hidden_state.sum().backward()
    learning = [(name, weight) for name, weight in reader.named_parameters() if weight.requires_grad]
    assert [name for name, weight in learning if weight.grad is None] == []


def test_what_cannot_begin_with_two_translators_says_what_can(tmp_path: Path) -> None:
    from pear.shipped import SHIPPED
    from pear.training.origin import Origin
    from pear.training.start import begin

    with pytest.raises(UsageError, match="two translators read them together; leave the architecture out"):
        begin("resume", Origin(model="en-de", architecture="comet"))
    with pytest.raises(ModelError, match="not an encoder of transformers; give it by --from"):
        begin("pear", Origin(encoder=str(SHIPPED / "en-de")))


def random_translators(folder: Path, quantization: str) -> tuple[Any, Any, Any]:
    """Random translation models of two sizes, there and back, and their pieces; written to folders of these names."""
    import sentencepiece

    from candidates.training.export import write_translator
    from candidates.training.loop import learn_pieces
    from candidates.training.network import Sizes, Translator

    file = folder / "sentencepiece.model"
    learn_pieces(CORPUS * 4, 500, file)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
    models = []
    for seed, name, layers in ((1, "there", 3), (2, "back", 1)):
        torch.manual_seed(seed)
        sizes = Sizes(
            pieces.get_piece_size(), width=64, feed_forward=96, heads=2, encoder_layers=layers, decoder_layers=2
        )
        model = Translator(sizes).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.05 * torch.randn_like(weight))
        write_translator(model, file, folder / name, quantization=quantization)
        models.append(model)
    return models[0], models[1], pieces


def laid_out(rows: Sequence[tuple[str, ...]], tokenizer: Any, reader: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask of rows of texts."""
    from pear.runtime.token_store import TokenStore
    from pear.serialize import Layout, lay_out, share_budget

    layout, store = Layout.of(tokenizer, reader.config), TokenStore(tokenizer)
    numbers = store.number(text for row in rows for text in row).reshape(len(rows), -1)
    batch = lay_out(layout, store, numbers, share_budget(store.lengths[numbers], layout.budget(numbers.shape[1])))
    return torch.from_numpy(batch.ids).long(), torch.from_numpy(batch.attention)


def test_a_share_of_the_states_is_left_out_only_while_it_learns(tmp_path: Path) -> None:
    from pear.training.reader import start_from_translators

    random_translators(tmp_path, "float32")
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", dropout=0.5)
    batch = laid_out([tuple(CORPUS[:3])], tokenizer, reader)
    assert not torch.equal(reader.train()(*batch).last_hidden_state, reader(*batch).last_hidden_state)
    assert torch.equal(reader.eval()(*batch).last_hidden_state, reader(*batch).last_hidden_state)


def test_translations_are_computed_once_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is in a batch; beyond the bound they are computed again, with the same answers."""
    from pear.training import translation_memory
    from pear.training.reader import start_from_translators
    from pear.training.translation_memory import forget_translations, keep_translations

    random_translators(tmp_path, "float32")
    reader, tokenizer = start_from_translators(tmp_path / "there", tmp_path / "back", dropout=0.0)
    batches = [
        laid_out([tuple(CORPUS[k : k + 3]) for k in places], tokenizer, reader)
        for places in ((0, 1), (0, 1, 2, 3), (1, 8))
    ]
    expected = [reader(*batch).last_hidden_state for batch in batches]
    computed = []
    plain = reader.translations
    monkeypatch.setattr(reader, "translations", lambda texts: computed.append(len(texts.candidates)) or plain(texts))
    for bound, times in ((10**9, 3), (0, 6)):
        monkeypatch.setattr(translation_memory, "free_bytes", lambda bound=bound: bound)
        keep_translations(reader)
        computed.clear()
        for _ in range(2):
            for batch, wanted in zip(batches, expected, strict=True):
                present = batch[1].bool()
                found = reader(*batch).last_hidden_state
                torch.testing.assert_close(found[present], wanted[present], atol=0.02, rtol=0.02)
        assert len(computed) == times
    monkeypatch.undo()
    forget_translations(reader)
    assert torch.equal(reader(*batches[0]).last_hidden_state, expected[0])


def test_a_metric_over_two_translators_learns_and_leaves_them_as_they_are(tmp_path: Path) -> None:
    from pear.training.origin import Origin
    from pear.training.start import begin

    folders = (str(BUNDLED), str(BUNDLED.with_name("de-en")))
    begun = begin("pear", Origin(translators=folders, layers=1, hidden_sizes=(16,)))
    before = {name: weight.clone() for name, weight in begun.network.state_dict().items()}
    learnt = train(replace(ALONE, steps=12, every=3), begun, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]
    after = learnt.network.state_dict()
    assert {torch.equal(before[name], after[name]) for name in before if "_model." in name} == {True}
    assert not torch.equal(before["encoder.word.weight"], after["encoder.word.weight"])
