"""A loaded PEAR as scripts for pear-mt use it: `predict`, and everything a torch module has.

The parts carry the names of the released checkpoints (`encoder.model.*`, `span_proj.*`, `pair_head.ff.*`,
`_alpha_raw`), so `state_dict()` has their keys. They are the network's own parts, not copies: what `.to`, `.half` or
`load_state_dict` changes is what the engine scores with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from candidates.common.errors import UsageError
from pear.checkpoint import Checkpoint, load_checkpoint
from pear.encoders.base import Encoder
from pear.engine import Engine
from pear.models.utils import Prediction
from pear.runtime.batches import default_batch_tokens
from pear.runtime.devices import resolve_devices
from pear.runtime.hub import REVISIONS
from pear.runtime.precision import DTYPES
from pear.runtime.token_store import TokenStore
from pear.serialize import Layout, lay_out, share_budget

FULL_LENGTH = 512
PRECISIONS = {dtype: name for name, dtype in DTYPES.items()}

DEFAULT_ENCODER_REVISIONS = {name: REVISIONS[name] for name in ("microsoft/infoxlm-large", "facebook/xlm-roberta-xl")}


def resolve_encoder_revision(pretrained_model: str, encoder_revision: str | None) -> str | None:
    """The revision asked for, else the pinned one of an encoder of the released models, else None."""
    return encoder_revision or DEFAULT_ENCODER_REVISIONS.get(pretrained_model)


class MetricModel(nn.Module):
    """A loaded PEAR. `predict` scores with the engine, on the device that `gpus` names.

    `.half()` and `.bfloat16()` set the precision of the encoder; the head stays in float32. With `progress` False
    no bar is shown, whatever `progress_bar` is.
    """

    progress = True

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.checkpoint = checkpoint
        head: Any = checkpoint.network.head
        self.encoder = Encoder(checkpoint.network.encoder, checkpoint.tokenizer)
        self.span_proj, self.pre_head_norm, self.pair_head = head.span_proj, head.pre_head_norm, head.pair_head
        self._alpha_raw: nn.Parameter | None
        self.register_parameter("_alpha_raw", head._alpha_raw)
        self._engine: tuple[tuple[str, str], Engine] | None = None
        self.eval()

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: Any,
        *,
        strict: bool = False,
        local_files_only: bool = False,
        encoder_revision: str | None = None,
        weights_only: bool = True,
        **ignored: Any,
    ) -> Self:
        """Load a `.ckpt` file. `weights_only=False` unpickles freely; Lightning's further options are not needed."""
        return cls(
            load_checkpoint(
                checkpoint_path,
                strict=strict,
                local_files_only=local_files_only,
                encoder_revision=encoder_revision,
                allow_pickle=not weights_only,
            )
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the encoder."""
        return next(self.encoder.parameters()).dtype

    def engine(self, gpus: int | str = "auto", batch_size: int = 8) -> Engine:
        """The engine on the devices that `gpus` names. It is kept until another one is asked for."""
        device = ",".join(resolve_devices(_device(gpus)))
        if batch_size < 1:
            raise UsageError(f"batch_size {batch_size} is not a positive number")
        settings = (device, PRECISIONS.get(self.dtype, "float32"))
        if self._engine is None or self._engine[0] != settings:
            network, tokenizer = self.checkpoint.network, self.checkpoint.tokenizer
            self._engine = (settings, Engine(network, tokenizer, device=device, dtype=settings[1]))
        engine = self._engine[1]
        budget = batch_size * FULL_LENGTH
        if device == "cpu":
            budget = min(budget, default_batch_tokens(self.encoder.output_units, on_cpu=True))
        engine.runner.batch_tokens = budget
        return engine

    def predict(
        self,
        samples: Sequence[dict[str, str]],
        batch_size: int = 16,
        progress_bar: bool = True,
        gpus: int | str = "auto",
        output_field: str = "scores",
        **ignored: Any,
    ) -> Prediction:
        """Score samples of `src`, `mt_0`, `mt_1`. Lightning's further options are accepted and not needed."""
        if output_field != "scores":
            raise UsageError(f"output_field {output_field!r} is unknown; expected 'scores'")
        self.eval()
        scored = self.engine(gpus, batch_size).score(_triples(samples), progress=progress_bar and self.progress)
        scores = scored.tolist()
        return Prediction(scores=scores, system_score=sum(scores) / len(scores) if scores else float("nan"))

    def prepare_sample(self, sample: Sequence[dict[str, str]], stage: str = "predict") -> dict[str, Tensor]:
        """The arguments of `forward` for samples of `src`, `mt_0`, `mt_1`."""
        if stage != "predict":
            raise UsageError(f"stage {stage!r} is unknown; expected 'predict'")
        store = TokenStore(self.encoder.tokenizer)
        layout = Layout.of(self.encoder.tokenizer, self.encoder.model.config)
        numbers = store.number(text for triple in _triples(sample) for text in triple).reshape(-1, 3)
        batch = lay_out(layout, store, numbers, share_budget(store.lengths[numbers], layout.budget(3)))
        arrays = {"input_ids": batch.ids, "attention_mask": batch.attention}
        arrays |= {name: batch.spans[:, k] for k, name in enumerate(("src_mask", "mt0_mask", "mt1_mask"))}
        return {name: torch.from_numpy(array).long().to(self.device) for name, array in arrays.items()}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, src_mask: Tensor, mt0_mask: Tensor, mt1_mask: Tensor
    ) -> Prediction:
        """Tokens and masks [pairs, tokens] -> `score` [pairs], and `z`, the score before it is scaled."""
        network = self.checkpoint.network
        spans = torch.stack([src_mask, mt0_mask, mt1_mask], dim=1)  # [pairs, 3, tokens]
        score = network(input_ids, attention_mask, spans)
        return Prediction(score=score, z=score / network.head.scale)

    def requires_references(self) -> bool:
        return False

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **options: Any) -> Any:
        result = super().load_state_dict(state_dict, *args, **options)
        self._weights_changed()
        return result

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._weights_changed()
        return self

    def _weights_changed(self) -> None:
        """Engines may hold copies; and torch may have put another parameter in the place of the shared one."""
        self._engine = None
        head: Any = self.checkpoint.network.head
        head._alpha_raw = self._alpha_raw
        head.float()
        self._alpha_raw = head._alpha_raw


def _triples(samples: Sequence[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(str(row["src"]), str(row["mt_0"]), str(row["mt_1"])) for row in samples]


def _device(gpus: int | str) -> str:
    """pear-mt's 'auto', 0 or 1; here also the number of CUDA devices to share the work."""
    if gpus == "auto":
        return "auto"
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0:
        raise UsageError(f"gpus {gpus!r} is not 'auto' or a number of devices")
    if gpus == 0:
        return "cpu"
    if gpus == 1 and not torch.cuda.is_available() and torch.backends.mps.is_available():
        return "mps"
    return ",".join(f"cuda:{number}" for number in range(gpus))
