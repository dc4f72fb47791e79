"""An encoder that begins as that of a translation model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from candidates.common.errors import ModelError
from pear.checkpoint import Checkpoint
from pear.training.loop import train
from tests.pear.training.runs import ALONE, BUNDLED, GROUPS, TEXTS, log

pytestmark = pytest.mark.one_world


def test_tokens_of_a_translator_are_those_of_sentencepiece_one_higher() -> None:
    import sentencepiece

    from pear.training.translator import tokenizer_of_pieces

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(BUNDLED / "sentencepiece.model"))
    tokenizer = tokenizer_of_pieces(BUNDLED / "sentencepiece.model", 256)
    odd = [
        "",
        " ",
        "👨‍👩‍👧",
        "x² Ⅳ ﾊﾝｶｸ ｶﾞ",
        "zero\u200bwidth \ufeffmark",
        "a\x07b\x00c",
        "～ ~",
        "a\u200eb",
        "▁ ▁x",
        "a\r\nb",
    ]
    combining = ["e\u0301 u\u0308", "\u1100\u1161\u11a8", "a\u0085b", "\u2028x\u2029"]
    for text in [*TEXTS, *odd, *combining, *(c.translation for g in GROUPS for c in g.candidates)]:
        expected = [k + 1 for k in pieces.encode(text)]
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == expected, text
    assert tokenizer("Hi")["input_ids"] == [0, *(k + 1 for k in pieces.encode("Hi")), 2]


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-5), ("int8", 0.1)])
def test_the_encoder_is_the_translators_own(quantization: str, tolerance: float, tmp_path: Path) -> None:
    import sentencepiece

    from candidates.training.export import write_translator
    from candidates.training.loop import learn_pieces
    from candidates.training.network import Sizes, Translator
    from pear.training.translator import start_from_translator
    from tests.support.random_pear import CORPUS

    file = tmp_path / "sentencepiece.model"
    learn_pieces(CORPUS * 4, 500, file)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
    torch.manual_seed(1)
    sizes = Sizes(pieces.get_piece_size(), width=64, feed_forward=96, heads=2, encoder_layers=3, decoder_layers=1)
    translator = Translator(sizes).eval()
    with torch.no_grad():
        for weight in translator.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    write_translator(translator, file, tmp_path / "ct2", quantization=quantization)
    encoder, tokenizer = start_from_translator(tmp_path / "ct2")
    assert encoder.config.num_attention_heads == 2
    for text in CORPUS[:6]:
        with torch.no_grad():
            expected = translator._embed(torch.tensor([[*pieces.encode(text), 2]]))
            for layer in translator.encoder:
                expected = layer(expected)
            expected = translator.encoder_norm(expected)
            ids = torch.tensor([tokenizer(text)["input_ids"][1:]])
            found = encoder.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        assert float((found - expected).abs().mean() / expected.abs().mean()) < tolerance
    short, _ = start_from_translator(tmp_path / "ct2", layers=2)
    assert short.config.num_hidden_layers == 2


def test_a_metric_that_begins_as_the_bundled_translator_learns(tmp_path: Path) -> None:
    from pear.model import PearNetwork
    from pear.training.translator import start_from_translator
    from tests.pear.training.processes import HEAD

    encoder, tokenizer = start_from_translator(BUNDLED, layers=1)
    torch.manual_seed(1)
    begun = Checkpoint(PearNetwork(encoder, HEAD), tokenizer, "en-de")
    train(replace(ALONE, steps=12, every=3), begun, GROUPS, [], tmp_path)
    losses = [line["loss"] for line in log(tmp_path)]
    assert losses[-1] < losses[0]


def test_a_file_that_is_no_translator_is_named(tmp_path: Path) -> None:
    from candidates.training.ct2_weights import read_ct2_weights

    file = tmp_path / "model.bin"
    for content in (b"", b"no model" * 20, (BUNDLED / "model.bin").read_bytes()[:5000]):
        file.write_bytes(content)
        with pytest.raises(ModelError, match="model.bin: cannot be read as a CTranslate2 model"):
            read_ct2_weights(file)
