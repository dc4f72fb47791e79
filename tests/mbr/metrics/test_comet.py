"""COMET, CometKiwi and XCOMET: the same numbers as unbabel-comet, from tiny checkpoints in its genuine format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from candidates.common.errors import ModelError, ResourceError, UsageError
from mbr.metrics import get_metric
from mbr.metrics.comet_network import sparsemax
from tests.conftest import ROOT
from tests.support.random_comet import write_random_comet

ROWS = [
    ("A dog runs.", "Ein Hund läuft.", "Der Hund rennt."),
    ("A dog runs.", "Ein Hund läuft.", "Ein Hund läuft."),
    ("", "", ""),
    ("A </s> in a text, <s> and <mask>.", "Ein <pad> im <pad> Text, </s> auch.", "<unk> \u200b\u0000 <pad>"),
    ("Tom told me that he wanted to meet my parents.", "Tom sagte mir, dass er meine Eltern treffen wollte.", "いろは"),
    ("天地玄黃，宇宙洪荒。", "Sie kaufte Brot, zwei Eier und eine Flasche Milch.", "She bought some bread."),
    ("long " * 300, "Zwölf Boxkämpfer jagen Viktor. " * 60, "Sie kaufte Brot, zwei Eier. " * 90),  # cut, each and all
]
PAIRS = [row[:2] for row in ROWS]

# name of the metric, and the checkpoint: its class, and what is unusual about it
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "comet": ("comet", {}),
    "comet-normalised": ("comet", {"layer_transformation": "softmax", "layer_norm": True}),
    "comet-max": ("comet", {"pool": "max"}),
    "comet-cls-one-layer": ("comet", {"pool": "cls", "layer": 1}),
    "comet-xl": ("comet", {"encoder": "xlm-roberta-xl", "hidden_sizes": (16,), "activations": "Sigmoid"}),
    "comet-bert": ("comet", {"encoder": "bert"}),
    "comet-qe": ("comet-qe", {}),
    "comet-qe-normalised": ("comet-qe", {"layer_transformation": "softmax", "layer_norm": True, "pool": "cls"}),
    "unite": ("unite", {"input_segments": ["mt", "src", "ref"]}),
    "unite-bert": ("unite", {"input_segments": ["mt", "src", "ref"], "encoder": "bert"}),
    "unite-without-source": ("unite", {"input_segments": ["mt", "ref"]}),
    "unite-words": ("unite", {"input_segments": ["mt", "src", "ref"], "word_level_training": True, "word_layer": 1}),
    "kiwi-bert": ("cometkiwi", {"input_segments": ["mt", "src"], "encoder": "bert"}),
    "kiwi": ("cometkiwi", {"input_segments": ["mt", "src"]}),
    "kiwi-words": ("cometkiwi", {"input_segments": ["mt", "src"], "word_level_training": True, "word_layer": 1}),
    "kiwi-xl": ("cometkiwi", {"input_segments": ["mt", "src"], "encoder": "xlm-roberta-xl"}),
    "xcomet": ("xcomet", {}),
    "xcomet-xl": ("xcomet", {"encoder": "xlm-roberta-xl", "layer_transformation": "softmax"}),
}
KINDS = {
    "comet": "regression_metric",
    "comet-qe": "referenceless_regression_metric",
    "cometkiwi": "unified_metric",
    "unite": "unified_metric",
    "xcomet": "xcomet_metric",
}
WITHOUT_REFERENCE = ("comet-qe", "cometkiwi")
GOLDEN = ROOT / "tests" / "data" / "comet_golden.json"


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("comet")

    def write(variant: str) -> Path:
        metric, shape = VARIANTS[variant]
        folder = root / variant
        return folder if folder.exists() else write_random_comet(folder, kind=KINDS[metric], **shape)

    return write


def loaded(variant: str, folder: Path, **options: Any) -> Any:
    return get_metric(VARIANTS[variant][0], model=folder, **{"device": "cpu", **options})


def rows_of(variant: str) -> list[tuple[str, ...]]:
    return list(PAIRS if VARIANTS[variant][0] in WITHOUT_REFERENCE else ROWS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_those_of_unbabel_comet(variant: str, written: Callable[[str], Path]) -> None:
    comet = pytest.importorskip("comet", reason="unbabel-comet needs transformers 4")
    folder = written(variant)
    library = comet.load_from_checkpoint(str(folder / "checkpoints" / "model.ckpt"), local_files_only=True)
    names = ("src", "mt", "ref")
    with loaded(variant, folder) as metric:
        # Three rows fill a batch there; here it is all of them, by length.
        both = metric.takes == (2, 3) and variant != "unite-without-source"
        jobs = [rows_of(variant), PAIRS] if both else [rows_of(variant)]
        for rows in jobs:
            data = [dict(zip(names, row, strict=False)) for row in rows]
            predicted = library.predict(data, batch_size=3, gpus=0, progress_bar=False, num_workers=0)
            np.testing.assert_allclose(metric.score(rows), predicted.scores, atol=1e-4)
            assert np.std(predicted.scores) > 0.03  # or any constant would do
            if VARIANTS[variant][0] == "xcomet":
                # Of a text with the word `<pad>` the library puts texts and places of different tokens together.
                plain = [place for place, row in enumerate(rows) if "<pad>" not in row[1]]
                spans = predicted.metadata.error_spans
                same_spans([spans[place] for place in plain], metric.spans([rows[place] for place in plain]))


def same_spans(theirs: list[list[dict[str, Any]]], ours: list[list[Any]]) -> None:
    assert sum(map(len, theirs)) > 5
    assert {span["severity"] for spans in theirs for span in spans} >= {"minor", "critical"}
    for library, mine in zip(theirs, ours, strict=True):
        assert [(s["start"], s["end"], s["severity"], s["text"]) for s in library] == [
            (span.start, span.end, span.severity, span.text) for span in mine
        ]
        np.testing.assert_allclose([s["confidence"] for s in library], [span.confidence for span in mine], atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_the_same_where_unbabel_comet_cannot_be_installed(
    variant: str, written: Callable[[str], Path]
) -> None:
    """Its scores, written down in the COMET world by `python -m tests.mbr.metrics.test_comet`."""
    golden = json.loads(GOLDEN.read_text())[variant]
    with loaded(variant, written(variant)) as metric:
        np.testing.assert_allclose(metric.score(rows_of(variant)), golden, atol=1e-4)


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    generator = torch.Generator().manual_seed(1)
    for size in (1, 2, 7, 25):
        scores = torch.randn(size, generator=generator)
        found = sparsemax(scores)
        assert float(found.sum()) == pytest.approx(1, abs=1e-6)
        others = torch.distributions.Dirichlet(torch.ones(size)).sample((2000,))
        assert bool((((others - scores) ** 2).sum(dim=1) >= ((found - scores) ** 2).sum() - 1e-6).all())


@pytest.mark.parametrize("variant", ["comet", "kiwi", "xcomet"])
def test_order_copies_and_batch_size_change_nothing(variant: str, written: Callable[[str], Path]) -> None:
    rows = rows_of(variant)
    with loaded(variant, written(variant)) as metric, loaded(variant, written(variant), batch_tokens=40) as small:
        scores = metric.score(rows)
        np.testing.assert_allclose(metric.score([*rows[::-1], *rows]), [*scores[::-1], *scores], atol=1e-6)
        np.testing.assert_allclose(small.score(rows), scores, atol=1e-5)
        assert metric.score([]).shape == (0,)


@pytest.mark.parametrize(
    "variant",
    ["comet", "kiwi", "xcomet"],
)
def test_what_is_too_long_is_told(variant: str, written: Callable[[str], Path]) -> None:
    with loaded(variant, written(variant)) as metric:
        rows = rows_of(variant)
        assert metric.truncated(rows).tolist() == [False] * (len(rows) - 1) + [True]
        assert metric.tokens(rows) > metric.tokens(rows[:2]) > 0
        assert metric.memory_bytes() > 0


def test_two_texts_that_fit_alone_may_not_fit_together(written: Callable[[str], Path]) -> None:
    text = "Sie kaufte Brot, zwei Eier und eine Flasche Milch im Laden um die Ecke. " * 12
    with loaded("kiwi", written("kiwi")) as metric:
        assert metric.truncated([("A dog.", text), (text, text)]).tolist() == [False, True]


def test_half_precision_is_near(written: Callable[[str], Path]) -> None:
    for variant in ("comet", "xcomet"):
        with (
            loaded(variant, written(variant)) as exact,
            loaded(variant, written(variant), dtype="bf16") as half,
        ):
            rows = ROWS[:2] + ROWS[4:6]
            np.testing.assert_allclose(half.score(rows), exact.score(rows), atol=0.15)
            assert half.settings()["dtype"] == "bf16"


def test_all_pairs_of_comet_are_the_library_definition_pair_by_pair(written: Callable[[str], Path]) -> None:
    texts = list(dict.fromkeys(text for row in ROWS for text in row[1:]))
    with loaded("comet", written("comet")) as metric:
        source = ROWS[0][0]
        plain = metric.score([(source, h, r) for h in texts for r in texts]).reshape(len(texts), -1)
        vectors, (of_source,) = metric.embed(texts), metric.embed([source])
        np.testing.assert_allclose(metric.all_pairs(of_source, vectors), plain, atol=1e-5)
        some = metric.all_pairs(of_source, vectors, vectors[2:4])
        np.testing.assert_allclose(some, plain[:, 2:4], atol=1e-5)


def test_xcomet_reads_hypothesis_and_source_once_for_all_references(
    written: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Ein Hund läuft.", "Der Hund rennt.", "Ein Hund rennt.", "Der Kater schläft."]
    rows = [("A dog runs.", h, r) for h in texts for r in texts]
    with loaded("xcomet", written("xcomet")) as metric:
        plain = [float(metric.score([row])[0]) for row in rows]
    inputs: list[int] = []
    with loaded("xcomet", written("xcomet")) as metric:
        run = metric._joint.run

        def counted(some: list[Any], **options: Any) -> Any:
            inputs.append(len(some))
            return run(some, **options)

        monkeypatch.setattr(metric._joint, "run", counted)
        np.testing.assert_allclose(metric.score(rows), plain, atol=1e-5)
        assert sum(inputs) == len(texts) + 2 * len(texts) ** 2
        metric.score(rows[:4])  # the input without reference is remembered between calls
        assert inputs[-1] == 2 * 4


def test_an_encoder_under_its_hub_name_is_found_beside_the_checkpoint_or_where_it_is_said_to_be(
    tmp_path: Path, written: Callable[[str], Path]
) -> None:
    folder = shutil.copytree(written("comet"), tmp_path / "comet")
    content = torch.load(folder / "checkpoints" / "model.ckpt", weights_only=True)
    content["hyper_parameters"]["pretrained_model"] = "xlm-roberta-large"
    torch.save(content, folder / "checkpoints" / "model.ckpt")
    with loaded("comet", written("comet")) as metric, loaded("comet", folder) as beside:
        expected = metric.score(ROWS)
        np.testing.assert_array_equal(beside.score(ROWS), expected)
    (folder / "encoder").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"its encoder xlm-roberta-large: .*--encoder FOLDER"):
        loaded("comet", folder, offline=True)
    with pytest.raises(ModelError, match="the encoder folder .*nowhere does not exist"):
        loaded("comet", written("comet"), encoder=tmp_path / "nowhere")
    with loaded("comet", folder, encoder=tmp_path / "elsewhere") as told:
        np.testing.assert_array_equal(told.score(ROWS), expected)


def test_hparams_may_say_that_a_checkpoint_means_softmax(tmp_path: Path) -> None:
    """Some were trained with softmax while they say sparsemax; their hparams.yaml was mended."""
    sparse = write_random_comet(tmp_path / "sparse", kind="unified_metric", input_segments=["mt", "src"])
    soft, patched = (shutil.copytree(sparse, tmp_path / name) for name in ("soft", "patched"))
    file = soft / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    content["hyper_parameters"]["layer_transformation"] = "softmax"
    torch.save(content, file)
    settings = yaml.safe_load((patched / "hparams.yaml").read_text())
    (patched / "hparams.yaml").write_text(yaml.safe_dump({**settings, "layer_transformation": "sparsemax_patch"}))
    scores = {}
    for folder in (sparse, soft, patched):
        with get_metric("cometkiwi", model=folder, device="cpu") as metric:
            scores[folder.name] = metric.score(PAIRS)
    np.testing.assert_array_equal(scores["patched"], scores["soft"])
    assert not np.allclose(scores["patched"], scores["sparse"], atol=1e-3)


def test_settings_that_change_scores_are_in_the_name(tmp_path: Path) -> None:
    """The same weights, read in another way."""
    folder = write_random_comet(tmp_path / "comet")
    file = folder / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    names, scores = set(), set()
    for change in ({}, {"pool": "max"}, {"layer_norm": True}, {"activations": "Sigmoid"}):
        torch.save({**content, "hyper_parameters": {**content["hyper_parameters"], **change}}, file)
        with get_metric("comet", model=folder, device="cpu") as metric:
            names.add(metric.settings()["model"])
            scores.add(float(metric.score(ROWS[:1])[0]))
    assert len(names) == len(scores) == 4


def test_the_estimator_goes_on_in_smaller_chunks_when_memory_runs_out(
    written: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded("comet", written("comet")) as metric:
        expected = metric.score(ROWS)
        estimate, sizes = metric.estimate, []

        def tight(source: Any, mt: Any, reference: Any) -> Any:
            sizes.append(len(mt))
            if len(mt) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return estimate(source, mt, reference)

        monkeypatch.setattr(metric, "estimate", tight)
        monkeypatch.setattr("mbr.metrics.vectors.CHUNK_CELLS", {"cpu": 6 * 64 * len(ROWS)})
        np.testing.assert_allclose(metric.score(ROWS), expected, atol=1e-6)
        assert max(sizes) > 2
        monkeypatch.setattr(metric, "estimate", lambda *vectors: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(ResourceError, match="out of memory"):
            metric.score(ROWS)


def test_weights_that_are_not_free_for_all_uses_are_told(written: Callable[[str], Path]) -> None:
    with loaded("kiwi", written("kiwi")) as kiwi, loaded("comet", written("comet")) as comet:
        assert "CC BY-NC-SA 4.0: not for commercial use" in kiwi.notes()[0]
        assert comet.notes() == []


def test_the_name_holds_a_fingerprint_of_local_weights(written: Callable[[str], Path]) -> None:
    with loaded("comet", written("comet")) as one, loaded("comet-max", written("comet-max")) as other:
        name, digits = str(one.settings()["model"]).split("@")
        assert (name, len(digits)) == ("comet", 12)
        assert str(other.settings()["model"]).startswith("comet-max@")


@pytest.mark.parametrize(
    ("metric", "variant", "message"),
    [
        ("comet", "kiwi", "is a unified_metric, which comet does not take"),
        ("cometkiwi", "xcomet", "is a xcomet_metric, which cometkiwi does not take"),
        ("xcomet", "comet", "is a regression_metric, which xcomet does not take"),
    ],
)
def test_a_checkpoint_of_another_class_is_refused(
    metric: str, variant: str, message: str, written: Callable[[str], Path]
) -> None:
    with pytest.raises(ModelError, match=message):
        get_metric(metric, model=written(variant))


def test_broken_checkpoints_are_refused(tmp_path: Path, written: Callable[[str], Path]) -> None:
    folder = shutil.copytree(written("comet"), tmp_path / "comet")
    file = folder / "checkpoints" / "model.ckpt"
    whole = torch.load(file, weights_only=True)

    def refused(content: Any, message: str) -> None:
        torch.save(content, file)
        with pytest.raises(ModelError, match=message):
            get_metric("comet", model=folder)

    state = whole["state_dict"]
    without = {key: value for key, value in state.items() if key != "estimator.ff.0.weight"}
    refused({**whole, "state_dict": without}, r"1 weight is missing, e.g. estimator.ff.0.weight")
    refused({**whole, "hyper_parameters": {**whole["hyper_parameters"], "hidden_sizes": [7]}}, "do not fit")
    refused({**whole, "hyper_parameters": {**whole["hyper_parameters"], "encoder_model": "GPT"}}, "'GPT' is unknown")
    refused({**whole, "hyper_parameters": {**whole["hyper_parameters"], "pool": "sum"}}, "pool 'sum' is unknown")
    refused({**whole, "hyper_parameters": {**whole["hyper_parameters"], "layer": 9}}, "layer 9 is none")
    file.write_bytes(b"no checkpoint")
    with pytest.raises(ModelError, match="refused, it is not a plain tensor file"):
        get_metric("comet", model=folder)
    with pytest.raises(ModelError, match="is not a COMET checkpoint"):
        get_metric("comet", model=tmp_path)
    with pytest.raises(ModelError, match="nowhere does not exist"):
        get_metric("comet", model=tmp_path / "nowhere")
    with pytest.raises(ModelError, match="Unbabel/wmt22-comet-da@2760a223ac95.* is not in the local cache"):
        get_metric("comet", offline=True)
    with pytest.raises(UsageError, match="is a model of xcomet, not of comet"):
        get_metric("comet", model="xcomet-xl")


def test_rows_of_the_wrong_size_are_refused(written: Callable[[str], Path]) -> None:
    with loaded("kiwi", written("kiwi")) as kiwi, loaded("comet", written("comet")) as comet:
        with pytest.raises(UsageError, match=r"cometkiwi takes rows of \(source, hypothesis\)"):
            kiwi.score(ROWS)
        with pytest.raises(UsageError, match="comet takes rows of"):
            comet.score([*ROWS, *PAIRS])
    with pytest.raises(UsageError, match="closed"):
        comet.score(ROWS)


def write_golden() -> None:
    """Have unbabel-comet score the rows, for the world where it cannot be installed."""
    import tempfile

    import comet

    scores = {}
    for variant, (metric, shape) in VARIANTS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = write_random_comet(Path(scratch) / variant, kind=KINDS[metric], **shape)
            library = comet.load_from_checkpoint(str(folder / "checkpoints" / "model.ckpt"), local_files_only=True)
            data = [dict(zip(("src", "mt", "ref"), row, strict=False)) for row in rows_of(variant)]
            predicted = library.predict(data, batch_size=3, gpus=0, progress_bar=False, num_workers=0)
            scores[variant] = [round(score, 6) for score in predicted.scores]
    GOLDEN.write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    write_golden()
