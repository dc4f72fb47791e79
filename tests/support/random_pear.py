"""Random PEAR checkpoints in the genuine formats, of any size: nothing here is downloaded.

Tests and benchmarks need real files (a trained sentencepiece vocabulary, transformers configurations, a Lightning
checkpoint), not good scores. Weights are drawn wide enough that scores spread over several units, so that a wrong
token or a wrong position shows.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pear.checkpoint import Checkpoint, save_released
from pear.model import HeadConfig, ResumeMetricNetwork, build_network
from pear.runtime.probes import PROBES

CORPUS = [text for triple in PROBES for text in triple if text] + [
    "The quick brown fox jumps over the lazy dog, 0123456789 times.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Portez ce vieux whisky au juge blond qui fume.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "いろはにほへと ちりぬるを わかよたれそ つねならむ。",
    "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر.",
    "Tom told me that he wanted to meet my parents, but I never believed him.",
    "Tom sagte mir, dass er meine Eltern treffen wollte, aber ich habe ihm nie geglaubt.",
    "She bought some bread, two eggs and a bottle of milk at the shop round the corner.",
    "Sie kaufte Brot, zwei Eier und eine Flasche Milch im Laden um die Ecke.",
]


def train_pieces(sentences: Sequence[str] = CORPUS * 4, **settings: Any) -> bytes:
    """A sentencepiece model of some sentences, by default those above; `settings` are those of its trainer."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        **settings,
    )
    return model.getvalue()


def write_tokenizer(folder: Path, pieces: bytes | None = None) -> None:
    """A sentencepiece vocabulary as XLM-R ships it, by default one of the sentences above."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(pieces or train_pieces(vocab_size=500))
    config = '{"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512}\n'
    (folder / "tokenizer_config.json").write_text(config)
    # XLM-R folders need their type for the tokenizer to be recognised.
    (folder / "config.json").write_text('{"model_type": "xlm-roberta"}\n')
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def write_bert_tokenizer(folder: Path) -> None:
    """A word-piece vocabulary as BERT ships it: special tokens, characters, and a few words."""
    words = sorted({word.lower() for text in CORPUS for word in text.split() if word.isalpha()})
    characters = sorted({character for text in CORPUS for character in text.lower() if not character.isspace()})
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *characters,
        *(f"##{c}" for c in characters),
        *words[::2],
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in dict.fromkeys(pieces)), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": 512}\n')
    (folder / "config.json").write_text('{"model_type": "bert"}\n')


def random_checkpoint(
    scratch: Path,
    *,
    layers: int = 2,
    hidden: int = 64,
    heads: int = 4,
    model_type: str = "xlm-roberta",
    max_tokens: int = 512,
    head: HeadConfig | None = None,
    kind: str = "pear",
    attention_gain: float = 1.0,
    seed: int = 1,
) -> Checkpoint:
    """A PEAR, or a model of another kind, with random weights, the same for the same arguments on every machine.

    Many random layers average all tokens into one vector, and scores no longer differ; a small `attention_gain`
    keeps tokens apart.
    """
    from transformers import AutoModel, AutoTokenizer

    (write_bert_tokenizer if model_type == "bert" else write_tokenizer)(scratch)
    tokenizer = AutoTokenizer.from_pretrained(scratch)
    config = encoder_config(
        model_type, tokenizer, layers=layers, hidden=hidden, heads=heads, max_tokens=max_tokens, type_vocab_size=1
    )
    head = head or (ResumeMetricNetwork.HEAD if kind == "resume" else HeadConfig())
    network = build_network(kind, AutoModel.from_config(config, add_pooling_layer=False), head)
    draw_weights(network, seed, attention_gain)
    return Checkpoint(network.eval(), tokenizer, "random")


def encoder_config(
    model_type: str, tokenizer: Any, *, layers: int, hidden: int, heads: int, max_tokens: int, **settings: Any
) -> Any:
    """The configuration of an encoder of any size; `settings` are further ones of its model type."""
    from transformers import AutoConfig

    return AutoConfig.for_model(
        model_type,
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=max_tokens + 2,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )


def draw_weights(network: Any, seed: int, attention_gain: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(network.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if "attention.output.dense" in name:
                noise *= attention_gain
            if name.endswith("_alpha_raw"):
                weight.fill_(1.0)
            elif "norm" in name.lower() or "span_proj.2" in name:
                weight.copy_(noise * 0.1 + (1.0 if name.endswith("weight") else 0.0))
            elif weight.dim() > 1 and "embeddings" not in name:
                weight.copy_(noise * (1.5 / weight.shape[1] ** 0.5))
            else:
                weight.copy_(noise * (1.0 if weight.dim() > 1 else 0.1))


def write_random_released(root: Path, **shape: Any) -> Checkpoint:
    """The same, written in the layout of the released checkpoints."""
    checkpoint = random_checkpoint(root.with_name(root.name + "-scratch"), **shape)
    save_released(checkpoint, root)
    return checkpoint
