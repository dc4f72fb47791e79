"""The networks behind COMET, CometKiwi, UniTE and XCOMET, and how their released checkpoints are read.

All of them are an encoder, a learned mixture of its layers, and a feed-forward estimator; XCOMET also tags each token
with the severity of an error. The checkpoint is `checkpoints/model.ckpt` with `hparams.yaml` beside it, as
unbabel-comet writes them, or an XCOMET-lite (`mbr.metrics.xcomet_lite`); it is read here without that library, which
not every environment can install. The encoder's configuration and tokenizer are a folder or a hub repository
(`pear.runtime.encoders.locate_encoder`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from candidates.common.errors import MbrError, ModelError
from mbr.metrics.plain_encoder import PLAIN, load_deberta_tokenizer, plain_encoder
from mbr.metrics.released import ModelFiles, find_model
from mbr.metrics.xcomet_lite import is_lite, read_lite
from pear.runtime.encoders import empty_encoder, fill_weights, load_tokenizer, locate_encoder
from pear.runtime.hub import root_of
from pear.runtime.lightning import checkpoint_file, read_hparams, read_released
from pear.runtime.options import ModelOptions

# Encoder names in hyper-parameters, the transformers types they stand for, and their tokenizers (None: DeBERTa's).
# MiniLM is a BERT that reads as XLM-R does.
ENCODERS: dict[str, tuple[str, str | None]] = {
    "BERT": ("bert", "BertTokenizerFast"),
    "DeBERTa": ("deberta-v2", None),
    "MiniLM": ("bert", "XLMRobertaTokenizerFast"),
    "RemBERT": ("rembert", "RemBertTokenizerFast"),
    "XLM-RoBERTa": ("xlm-roberta", "XLMRobertaTokenizerFast"),
    "XLM-RoBERTa-XL": ("xlm-roberta-xl", "XLMRobertaTokenizerFast"),
}
TYPED = ("BERT", "DeBERTa", "RemBERT")  # encoders with token types, and one separator between texts
# Hyper-parameters that change what is computed of the same weights.
SPEAKING = (
    "class_identifier",
    "encoder_model",
    "layer",
    "sent_layer",
    "word_layer",
    "layer_norm",
    "layer_transformation",
    "pool",
    "hidden_sizes",
    "activations",
    "final_activation",
    "input_segments",
)
ACTIVATIONS = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu": nn.ReLU, "gelu": nn.GELU, "softplus": nn.Softplus}
LABELS = ("O", "minor", "major", "critical")  # what XCOMET tags tokens with


class LayerMix(nn.Module):
    """A weighted sum of all layers, with weights on a simplex (softmax, or sparsemax, where many are zero)."""

    def __init__(self, layers: int, sparse: bool, normalise: bool) -> None:
        super().__init__()
        self.scalar_parameters = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(layers))
        self.gamma = nn.Parameter(torch.ones(1))
        self._sparse = sparse
        self._normalise = normalise

    def forward(self, layers: tuple[Tensor, ...], attention: Tensor) -> Tensor:
        """[rows, tokens, hidden] from one such tensor per layer and attention [rows, tokens]."""
        raw = torch.cat(list(self.scalar_parameters))
        shares = self.gamma * (sparsemax(raw) if self._sparse else torch.softmax(raw, dim=0))
        mixed = torch.zeros_like(layers[0], dtype=torch.float32)
        for share, layer in zip(shares, layers, strict=True):
            if share != 0:
                values = layer.float()
                mixed += share * (_normalised(values, attention) if self._normalise else values)
        return mixed


def sparsemax(scores: Tensor) -> Tensor:
    """The nearest point [n] of the simplex (Martins & Astudillo 2016)."""
    ordered = torch.sort(scores, descending=True).values
    excess = ordered.cumsum(0) - 1
    places = torch.arange(1, len(scores) + 1, device=scores.device)
    support = int((places * ordered > excess).sum())
    return torch.clamp(scores - excess[support - 1] / support, min=0)


def _normalised(values: Tensor, attention: Tensor) -> Tensor:
    """Mean 0 and variance 1 over all numbers of a row [rows, tokens, hidden] that are not padding."""
    mask = attention.float()[:, :, None]
    count = mask.sum(dim=(1, 2), keepdim=True) * values.shape[2]
    mean = (values * mask).sum(dim=(1, 2), keepdim=True) / count
    variance = (((values * mask - mean) * mask) ** 2).sum(dim=(1, 2), keepdim=True) / count
    return (values - mean) / torch.sqrt(variance + 1e-12)


class Estimator(nn.Module):
    """Linear layers with an activation between them; the places in `ff` are those of released checkpoints."""

    def __init__(self, inputs: int, sizes: list[int], activation: str, final: str | None) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in sizes:
            layers += [nn.Linear(inputs, size), _activation(activation), nn.Identity()]  # dropout, when training
            inputs = size
        layers.append(nn.Linear(inputs, 1))
        if final is not None:
            layers.append(_activation(final))
        self.ff = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        return self.ff(features).squeeze(-1)


def _activation(name: str) -> nn.Module:
    if name.lower() not in ACTIVATIONS:
        raise ModelError(f"activation {name!r} is unknown; expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name.lower()]()


class CometNetwork(nn.Module):
    """Encoder, layer mixture (or one layer), estimator, and a tagger where the model has one."""

    def __init__(self, encoder: nn.Module, hparams: dict[str, Any], width: int) -> None:
        """`width` is how many sentence vectors the estimator reads."""
        super().__init__()
        self.encoder = encoder
        config: Any = encoder.config
        layers = config.num_hidden_layers + 1
        unified = hparams["class_identifier"] in ("unified_metric", "xcomet_metric")
        self.layer = hparams.get("sent_layer" if unified else "layer", "mix")
        if self.layer == "mix":
            sparse = hparams.get("layer_transformation", "sparsemax" if unified else "softmax") == "sparsemax"
            normalise = bool(hparams.get("layer_norm", hparams["class_identifier"] != "xcomet_metric"))
            self.layerwise_attention = LayerMix(layers, sparse, normalise)
        self.word_layer = hparams.get("word_layer", 24)
        for layer in [self.layer] * (self.layer != "mix") + [self.word_layer] * _tags(hparams):
            if not (isinstance(layer, int) and 0 <= layer < layers):
                raise ModelError(f"layer {layer!r} is none of the encoder's 0 to {layers - 1}")
        self.estimator = Estimator(
            width * config.hidden_size,
            list(hparams.get("hidden_sizes", (3072, 1024))),
            str(hparams.get("activations", "Tanh")),
            hparams.get("final_activation"),
        )
        if _tags(hparams):
            labels = 1 + len(hparams.get("error_labels", LABELS[1:]))
            self.hidden2tag = nn.Linear(config.hidden_size, labels)
        self.typed = str(hparams.get("encoder_model", "XLM-RoBERTa")) in TYPED

    def encode(self, ids: Tensor, attention: Tensor, first: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Vectors [rows, tokens, hidden] for the sentence score, and those the tagger reads, in float32.

        `first` [rows] is the number of tokens of the first of several texts, for encoders with token types.
        """
        options = {}
        if self.typed and first is not None:
            options["token_type_ids"] = (torch.arange(ids.shape[1], device=ids.device) >= first[:, None]).long()
        states = self.encoder(input_ids=ids, attention_mask=attention.long(), output_hidden_states=True, **options)
        layers = states.hidden_states
        mixed = self.layerwise_attention(layers, attention) if self.layer == "mix" else layers[self.layer].float()
        return mixed, layers[self.word_layer].float() if hasattr(self, "hidden2tag") else None


def _tags(hparams: dict[str, Any]) -> bool:
    return hparams["class_identifier"] == "xcomet_metric" or bool(hparams.get("word_level_training"))


@dataclass(frozen=True)
class CometCheckpoint:
    """A loaded network on the CPU, its tokenizer and hyper-parameters, and a name that identifies the checkpoint."""

    network: CometNetwork
    tokenizer: Any
    hparams: dict[str, Any]
    name: str
    files: ModelFiles

    @property
    def max_tokens(self) -> int:
        """The longest input. The library takes two positions less than there are, for every encoder."""
        config: Any = self.network.encoder.config
        return int(config.max_position_embeddings) - 2


def load_comet(metric: str, kinds: dict[str, int], default: str, **options: Unpack[ModelOptions]) -> CometCheckpoint:
    """A released checkpoint of one of `kinds` (class identifier: sentence vectors that its estimator reads)."""
    model = options.get("model") or default
    files = find_model(model, metric, options)
    file = checkpoint_file(files.path) or (files.path if is_lite(files.path) else None)
    if file is None:
        raise ModelError(
            f"{files.path} is not a COMET checkpoint: expected a folder with checkpoints/model.ckpt and hparams.yaml, "
            "or a .ckpt file"
        )
    try:
        return _read(file, files, metric, kinds, options)
    except (MbrError, MemoryError):
        raise
    except Exception as exc:  # files may be wrong in more ways than can be listed
        raise ModelError(f"{file}: this checkpoint is broken: {type(exc).__name__}: {exc}") from exc


def _read(file: Any, files: ModelFiles, metric: str, kinds: dict[str, int], options: ModelOptions) -> CometCheckpoint:
    lite = file.is_dir()
    state, hparams = read_lite(file) if lite else read_released(file)
    beside = {} if lite else read_hparams(file)
    kind = str(beside.get("class_identifier") or hparams.get("class_identifier"))
    if kind not in kinds:
        raise ModelError(f"{file} is a {kind}, which {metric} does not take (expected {' or '.join(kinds)})")
    hparams["class_identifier"] = kind
    if beside.get("layer_transformation") == "sparsemax_patch":
        # Some models were trained with softmax while their checkpoint names sparsemax; hparams.yaml has it right.
        hparams["layer_transformation"] = "softmax"
    name = str(hparams.get("encoder_model", "XLM-RoBERTa"))
    if name not in ENCODERS:
        raise ModelError(f"{file}: encoder_model {name!r} is unknown; expected one of {', '.join(ENCODERS)}")
    encoder_type, tokenizer_class = ENCODERS[name]
    recorded = str(hparams.get("pretrained_model", "xlm-roberta-large"))
    hub = {"cache_dir": options.get("cache_dir"), "local_files_only": options.get("offline", False)}
    folder = locate_encoder(options.get("encoder"), recorded, file if lite else root_of(file), None, hub)
    build = plain_encoder if encoder_type in PLAIN else empty_encoder
    network = CometNetwork(build(folder, encoder_type), hparams, kinds[kind])
    fill_weights(network, {key.replace("encoder.model.", "encoder.", 1): value for key, value in state.items()}, file)
    network.float()
    tokenizer = load_tokenizer(folder, tokenizer_class) if tokenizer_class else load_deberta_tokenizer(folder)
    config: Any = network.encoder.config
    settings = repr([hparams.get(name) for name in SPEAKING]) + config.to_json_string()
    name = files.full_name(network, tokenizer, settings, options)
    return CometCheckpoint(network.eval(), tokenizer, hparams, name, files)
