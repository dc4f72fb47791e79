"""XCOMET-lite: the same numbers and spans as XCOMET's own class on a DeBERTa, from tiny hub files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError
from mbr.metrics import get_metric
from tests.mbr.metrics.test_comet import PAIRS, ROWS, same_spans
from tests.support.random_comet import write_random_lite

# Of XCOMET's class in unbabel-comet 2.2.7 on a DeBERTa of transformers 4.57.
PINNED = {
    "rows": [0.869583, 0.77297, 0.826942, 0.78, 0.3093, 0.642491, 0.357382],
    "pairs": [0.772625, 0.772625, 0.837452, 0.78, 0.278817, 0.78, 0.359315],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Path:
    return write_random_lite(tmp_path_factory.mktemp("lite") / "whole")


@pytest.fixture(scope="module")
def folder(written: Path) -> Path:
    """As the hub has it: neither a Lightning checkpoint nor the encoder's own files, which are beside it here."""
    root = written.with_name("lite")
    shutil.copytree(written, root)
    shutil.rmtree(root / "checkpoints")
    (root / "hparams.yaml").unlink()
    return root


def load(folder: Path, **options: Any) -> Any:
    return get_metric("xcomet", model=folder, device="cpu", **options)


def library(written: Path) -> Any:
    """XCOMET of unbabel-comet, which has no DeBERTa of its own: it gets one that reads as its BERT does."""
    comet = pytest.importorskip("comet", reason="unbabel-comet needs transformers 4")
    from comet.encoders import BERTEncoder, str2encoder
    from torch import nn
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    class Deberta(BERTEncoder):
        def __init__(self, name: str, *settings: Any) -> None:
            nn.Module.__init__(self)
            self.tokenizer = AutoTokenizer.from_pretrained(name)
            self.model = AutoModel.from_config(AutoConfig.from_pretrained(name))

        @classmethod
        def from_pretrained(cls, name: str, *settings: Any) -> Any:
            return cls(name)

        def forward(self, input_ids: Any, attention_mask: Any, **others: Any) -> Any:
            output = self.model(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
            return {"all_layers": output.hidden_states}

    str2encoder["DeBERTa"] = Deberta
    return comet.load_from_checkpoint(str(written / "checkpoints" / "model.ckpt"), local_files_only=True)


def test_scores_and_spans_are_those_of_xcomet_on_deberta(written: Path, folder: Path) -> None:
    theirs = library(written)
    with load(folder) as metric:
        for rows in (ROWS, PAIRS):
            data = [dict(zip(("src", "mt", "ref"), row, strict=False)) for row in rows]
            predicted = theirs.predict(data, batch_size=3, gpus=0, progress_bar=False, num_workers=0)
            np.testing.assert_allclose(metric.score(rows), predicted.scores, atol=1e-4)
            assert np.std(predicted.scores) > 0.03
            same_spans(predicted.metadata.error_spans, metric.spans(rows))


@pytest.mark.parametrize("rows", ["rows", "pairs"])
def test_scores_are_known_numbers(folder: Path, rows: str) -> None:
    with load(folder) as metric:
        scores = metric.score({"rows": ROWS, "pairs": PAIRS}[rows])
        np.testing.assert_allclose(scores, PINNED[rows], atol=1e-4)
        assert metric.truncated(ROWS).tolist() == [False] * (len(ROWS) - 1) + [True]


def test_a_checkpoint_in_either_layout_is_the_same_model(written: Path, folder: Path) -> None:
    with load(written) as lightning, load(folder) as lite:
        np.testing.assert_array_equal(lightning.score(ROWS), lite.score(ROWS))


def test_the_encoder_may_be_elsewhere_and_must_be_a_deberta(folder: Path, tmp_path: Path) -> None:
    from tests.support.random_comet import write_encoder

    copy = shutil.copytree(folder, tmp_path / "lite")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "pretrained_model": "microsoft/mdeberta-v3-base"}))
    (copy / "encoder").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"its encoder microsoft/mdeberta-v3-base: .*--encoder FOLDER"):
        load(copy, offline=True)
    with load(copy, encoder=tmp_path / "elsewhere") as metric:
        np.testing.assert_allclose(metric.score(ROWS), PINNED["rows"], atol=1e-4)
    write_encoder(tmp_path / "xlm-roberta", "xlm-roberta", layers=2, hidden=64, heads=4, max_tokens=512)
    with pytest.raises(ModelError, match="an encoder of type xlm-roberta, but the checkpoint has deberta-v2"):
        load(copy, encoder=tmp_path / "xlm-roberta")


def test_broken_files_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "lite")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "hidden_sizes": [7]}))
    with pytest.raises(ModelError, match="do not fit the configuration"):
        load(copy)
    with pytest.raises(ModelError, match="is a xcomet_metric, which comet does not take"):
        get_metric("comet", model=folder)
    (copy / "config.json").unlink()
    with pytest.raises(ModelError, match="is not a COMET checkpoint"):
        load(copy)
