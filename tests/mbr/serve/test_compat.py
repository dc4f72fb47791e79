"""Clients of other APIs, unchanged: cohere (v1 and v2), libretranslatepy, curl; and the shapes of TEI and vLLM."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import cohere
import pytest
from libretranslatepy import LibreTranslateAPI

import mbr
from candidates.generation import Settings as Search
from candidates.generation import open_generator
from mbr.opening import open_decoder
from mbr.recipe import GuardSpec, Recipe
from mbr.serve.limits import ApiKeys
from mbr.serve.translator import Translator
from mbr.utilities import get_utility
from tests.mbr.serve.conftest import Open, Site, site
from tests.mbr.serve.made import Faulty

pytestmark = pytest.mark.one_world

QUERY = "A dog runs."
DOCUMENTS = ["Ein Hund läuft.", "Der Hund läuft.", "Hund.", "Ein Hund läuft.", "Eine Katze schläft."]
KEY = "the-key"


@pytest.fixture(scope="module")
def chrf() -> Iterator[Site]:
    """chrF, and the bundled translator, with a key."""
    with Translator(open_generator(Search(nbest=6), threads=1)) as translator:
        decoders = {"chrf": open_decoder(Recipe("chrf"))}
        with site(decoders, translator, ApiKeys([KEY])) as running:
            running.http.headers["authorization"] = f"Bearer {KEY}"
            yield running


@pytest.fixture(scope="module")
def expected() -> mbr.Decision:
    return mbr.rerank(QUERY, DOCUMENTS, "chrf")


def indices(decision: mbr.Decision) -> list[tuple[int, float]]:
    assert decision.candidates is not None
    return [(p, float(decision.scores[k])) for k in decision.ranking for p in decision.candidates.positions[k]]


def test_cohere_v1(chrf: Site, expected: mbr.Decision) -> None:
    client = cohere.Client(KEY, base_url=chrf.address)
    answer = client.rerank(query=QUERY, documents=DOCUMENTS, model="chrf", return_documents=True)
    assert [(result.index, result.relevance_score) for result in answer.results] == indices(expected)
    assert [result.document.text for result in answer.results] == [DOCUMENTS[k] for k, _ in indices(expected)]
    assert answer.id
    assert answer.meta.api_version.version == "1"
    first = client.rerank(query=QUERY, documents=[{"text": text} for text in DOCUMENTS], model="chrf", top_n=1)
    assert [result.index for result in first.results] == [0]
    assert first.results[0].document is None


def test_cohere_v2(chrf: Site, expected: mbr.Decision) -> None:
    client = cohere.ClientV2(KEY, base_url=chrf.address)
    answer = client.rerank(model="chrf", query=QUERY, documents=DOCUMENTS, top_n=3)
    assert [(result.index, result.relevance_score) for result in answer.results] == indices(expected)[:3]
    assert answer.meta.billed_units.search_units == 1


def test_the_cohere_sdk_understands_our_errors(chrf: Site) -> None:
    with pytest.raises(cohere.UnauthorizedError):
        cohere.ClientV2("wrong", base_url=chrf.address).rerank(model="chrf", query="q", documents=["a"])
    with pytest.raises(cohere.UnprocessableEntityError) as caught:
        cohere.ClientV2(KEY, base_url=chrf.address).rerank(model="other", query="q", documents=["a"])
    assert "'other' is not served; expected one of chrf" in str(caught.value.body)


def test_libretranslatepy(chrf: Site) -> None:
    client = LibreTranslateAPI(chrf.address, api_key=KEY)
    assert (
        client.translate("A dog runs & sleeps.", "en", "de")
        == chrf.post("/v1/translate", {"text": "A dog runs & sleeps."}).json()["text"]
    )
    assert {language["code"] for language in client.languages()} == {"en", "de"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_curl(chrf: Site) -> None:
    command = ["curl", "-s", "-H", f"Authorization: Bearer {KEY}", "-d", '{"text": "A dog runs."}']
    done = subprocess.run([*command, f"{chrf.address}/v1/translate"], capture_output=True, check=True)
    assert json.loads(done.stdout)["text"]


def test_libretranslate_shapes(chrf: Site) -> None:
    answer = chrf.post(
        "/translate", {"q": ["A dog.", "Tom."], "source": "auto", "target": "de", "alternatives": 2, "unknown": 1}
    ).json()
    assert len(answer["translatedText"]) == len(answer["detectedLanguage"]) == 2
    assert [len(some) for some in answer["alternatives"]] == [2, 2]
    assert answer["detectedLanguage"][0]["language"] == "en"
    one = chrf.http.post("/translate", data={"q": "A dog.", "source": "en", "target": "de", "alternatives": "1"}).json()
    assert one == {"translatedText": answer["translatedText"][0], "alternatives": answer["alternatives"][0][:1]}


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"q": "a", "source": "en", "target": "fr"}, 422, "is not supported; this service translates en to de"),
        ({"q": "a", "source": "en", "target": "de", "format": "html"}, 422, "expected text"),
        ({"q": "a", "source": "en"}, 422, "target"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "x"}, 400, "neither"),
    ],
)
def test_errors_of_libretranslate_are_texts(form: Any, status: int, words: str, chrf: Site) -> None:
    answer = chrf.http.post("/translate", data=form)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


def test_jina_and_unknown_fields(chrf: Site, expected: mbr.Decision) -> None:
    body = {"model": "chrf", "query": QUERY, "documents": DOCUMENTS, "top_n": None, "max_chunks_per_doc": 3}
    answer = chrf.post("/v1/rerank", body).json()
    assert (answer["object"], answer["model"], answer["usage"]) == ("list", "chrf", {"total_tokens": 0})
    assert [result["index"] for result in answer["results"]] == [k for k, _ in indices(expected)]
    assert "document" not in answer["results"][0]
    assert chrf.post("/rerank", body).json()["results"] == answer["results"]


def test_text_embeddings_inference(chrf: Site, expected: mbr.Decision) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS, "raw_scores": False, "truncate": True}
    answer = chrf.post("/rerank", body).json()
    assert [(result["index"], result["score"]) for result in answer] == indices(expected)
    assert chrf.post("/rerank", {**body, "return_text": True}).json()[0]["text"] == DOCUMENTS[0]
    assert chrf.post("/rerank", {"query": "q"}).status_code == 422


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_scores_as_vllm_has_them(path: str, chrf: Site, expected: mbr.Decision) -> None:
    pairs = chrf.post(path, {"source": QUERY, "text_1": DOCUMENTS[0], "text_2": DOCUMENTS[1:3]}).json()
    matrix = get_utility("chrf").matrix(QUERY, DOCUMENTS[:1], DOCUMENTS[1:3])  # type: ignore[attr-defined]
    assert [entry["score"] for entry in pairs["data"]] == matrix[0].tolist()
    assert [entry["index"] for entry in pairs["data"]] == [0, 1]
    same = chrf.post(path, {"source": QUERY, "text_1": DOCUMENTS[:2], "text_2": DOCUMENTS[1:3]}).json()
    assert len(same["data"]) == 2
    alone = chrf.post(path, {"text_1": QUERY, "text_2": DOCUMENTS}).json()
    assert [entry["score"] for entry in alone["data"]] == [score for _, score in sorted(indices(expected))]
    for wrong in ({"text_1": ["a"], "text_2": ["b"]}, {"source": "s", "text_1": ["a", "b"], "text_2": ["c"] * 3}):
        assert chrf.post(path, wrong).status_code == 422


def test_one_document_has_a_score_of_nothing(chrf: Site) -> None:
    answer = chrf.post("/v2/rerank", {"query": QUERY, "documents": ["Ein Hund."]}).json()
    assert answer["results"] == [{"index": 0, "relevance_score": 0.0}]
    assert chrf.post("/v1/score", {"text_1": QUERY, "text_2": "Ein Hund."}).json()["data"][0]["score"] == 0.0


def test_without_a_translator_texts_are_refused(open_site: Open) -> None:
    where = open_site()
    for path, body in (("/v1/translate", {"text": "a"}), ("/translate", {"q": "a", "source": "en", "target": "de"})):
        answer = where.post(path, body)
        assert (answer.status_code, "no translation model" in answer.json()["error"]) == (422, True)
    assert where.http.get("/languages").json() == []


def test_a_fallback_of_a_guarded_recipe_ranks_only_a_candidate_that_keeps_the_rules(utility: Faulty) -> None:
    recipe = Recipe(strategy="half", guards=(GuardSpec("placeholders"),)).complete()
    documents = ["Hallo nan", "Hallo {name} nan", "Hallo noch {name} nan", "Hallo {name} nan"]
    with site({"half": open_decoder(recipe, utility=utility)}, fallback=True) as where:
        body = {"query": "Hi {name}, nan", "documents": documents}
        answer = where.post("/v1/rerank", body).json()
        decision = where.post("/v1/decode", {"source": body["query"], "candidates": documents}).json()
        scores = where.post("/score", {"text_1": body["query"], "text_2": documents}).json()
    assert [(result["index"], result["relevance_score"]) for result in answer["results"]] == [(1, 0.0), (3, 0.0)]
    assert (decision["text"], decision["position"], decision["flags"]) == (documents[1], 1, ["fallback"])
    assert [entry["score"] for entry in scores["data"]] == [None, 0.0, None, 0.0]
