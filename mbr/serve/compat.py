"""Endpoints of APIs that people already use: reranking as Cohere, Jina, vLLM and TEI have it, scores as vLLM, and
translations as LibreTranslate. Unknown fields are ignored, as those services do.

The query is the source, the documents are its candidate translations; relevance is the score by which candidates are
ranked, an expected utility (plus terms, if the recipe has any), not a number between 0 and 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qs

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from candidates.common.errors import InputError, UsageError
from mbr.serve.answers import number
from mbr.serve.errors import Problem, too_many_texts
from mbr.serve.exchange import Json, answers_of, note, validation_problem
from mbr.serve.jobs import Answer
from mbr.serve.service import NO_TRANSLATOR, Service
from mbr.serve.shapes import Name, NotNegative, Positive, error_responses


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False, protected_namespaces=())


class Document(Lenient):
    text: str


class RerankIn(Lenient):
    """Cohere v1 and Jina."""

    model: Name | None = None
    query: str
    documents: list[str | Document] = Field(min_length=1)
    top_n: Positive | None = None
    return_documents: bool | None = None


class Rerank2In(Lenient):
    """Cohere v2."""

    model: Name | None = None
    query: str
    documents: list[str] = Field(min_length=1)
    top_n: Positive | None = None


class TeiIn(Lenient):
    """Text Embeddings Inference."""

    query: str
    texts: list[str] = Field(min_length=1)
    raw_scores: bool | None = None
    return_text: bool | None = None
    truncate: bool | None = None


class ScoreIn(Lenient):
    """vLLM. With `source`, pairs of translations; without it, text_1 is the source and text_2 its candidates."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["source"], "properties": {"source": {"type": "string"}}},
                {"properties": {"text_1": {"type": "string"}}},
            ]
        }
    )

    model: Name | None = None
    source: str | None = None
    text_1: str | list[str]
    text_2: str | list[str]


class LibreIn(Lenient):
    """LibreTranslate."""

    q: str | Annotated[list[str], Field(min_length=1)]
    source: Name
    target: Name
    format: Name | None = None
    alternatives: NotNegative | None = None
    api_key: str | None = None


class DocumentOut(BaseModel):
    text: str


class Result(BaseModel):
    index: int
    relevance_score: float
    document: DocumentOut | None = None


class TokensOut(BaseModel):
    total_tokens: int


class RerankOut(BaseModel):
    id: str
    model: str
    object: str
    results: list[Result]
    usage: TokensOut
    meta: dict[str, Any]


class TeiResult(BaseModel):
    index: int
    score: float
    text: str | None = None


class ScoreOut(BaseModel):
    id: str
    object: str
    model: str
    data: list[dict[str, Any]]
    usage: TokensOut


class LibreOut(BaseModel):
    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    alternatives: list[Any] | None = None
    detectedLanguage: dict[str, Any] | list[dict[str, Any]] | None = None  # noqa: N815


def add_endpoints(api: FastAPI, service: Service) -> None:
    _add_rerank(api, service)
    _add_score(api, service)
    _add_libretranslate(api, service)


def _add_rerank(api: FastAPI, service: Service) -> None:
    async def cohere(body: RerankIn | Rerank2In, request: Request, version: int) -> Response:
        texts = [entry if isinstance(entry, str) else entry.text for entry in body.documents]
        recipe, answer = await _decided(request, service, body.model, body.query, texts)
        wanted = isinstance(body, RerankIn) and bool(body.return_documents)
        results = [
            {"index": place, "relevance_score": score, **({"document": {"text": texts[place]}} if wanted else {})}
            for place, score in ranked(answer)[: body.top_n]
        ]
        meta = {"api_version": {"version": str(version)}, "billed_units": {"search_units": 1}}
        usage = {"total_tokens": answer.tokens}
        id = request.scope["state"]["mbr"]["id"]
        return Json({"id": id, "model": recipe, "object": "list", "results": results, "usage": usage, "meta": meta})

    @api.post("/v1/rerank", responses={200: {"model": RerankOut}, **error_responses()})
    async def rerank_1(body: RerankIn, request: Request) -> Response:
        """Cohere v1 and Jina: documents ranked by their relevance to the query."""
        return await cohere(body, request, 1)

    @api.post("/v2/rerank", responses={200: {"model": RerankOut}, **error_responses()})
    async def rerank_2(body: Rerank2In, request: Request) -> Response:
        """Cohere v2."""
        return await cohere(body, request, 2)

    @api.post("/rerank", responses={200: {"model": RerankOut | list[TeiResult]}, **error_responses()})
    async def rerank(body: RerankIn | TeiIn, request: Request) -> Response:
        """Text Embeddings Inference by `texts`; else as /v1/rerank."""
        if isinstance(body, RerankIn):
            return await cohere(body, request, 1)
        _, answer = await _decided(request, service, None, body.query, body.texts)
        wanted = bool(body.return_text)
        return Json(
            [
                {"index": place, "score": score, **({"text": body.texts[place]} if wanted else {})}
                for place, score in ranked(answer)
            ]
        )


async def _decided(
    request: Request, service: Service, model: str | None, source: str, texts: Sequence[str]
) -> tuple[str, Answer]:
    recipe = service.recipe_name(model)
    note(request, recipe=recipe)
    (answer,) = await answers_of(request, service, [service.list_request(source, texts, recipe)])
    return recipe, answer


def ranked(answer: Answer) -> list[tuple[int, float]]:
    """Positions with their scores, best first; equal texts share a score. Without scores (a fallback) it is 0.

    Candidates that were not compared (guards, a prefilter, a small budget, a fallback) are left out.
    """
    decision = answer.decision
    assert decision is not None
    assert decision.candidates is not None
    scores = decision.scores if len(decision.scores) else np.zeros(len(decision.candidates))
    positions = decision.candidates.positions
    return [(place, number(scores[k]) or 0.0) for k in decision.ranking for place in positions[k]]


def _add_score(api: FastAPI, service: Service) -> None:
    async def score(body: ScoreIn, request: Request) -> Response:
        recipe = service.recipe_name(body.model)
        note(request, recipe=recipe)
        if body.source is None:
            if not isinstance(body.text_1, str):
                raise UsageError(
                    "text_1 is a list of translations, and `source` is missing; send their source as `source`"
                )
            texts = [body.text_2] if isinstance(body.text_2, str) else body.text_2
            decoding = service.list_request(body.text_1, texts, recipe)
            (answer,) = await answers_of(request, service, [decoding])
            by_place = dict(ranked(answer))
            scores = [by_place.get(place) for place in range(len(texts))]
        else:
            scoring = service.pairs_request(body.source, _pairs(body.text_1, body.text_2), recipe)
            (answer,) = await answers_of(request, service, [scoring])
            assert answer.scores is not None
            scores = [number(value) for value in answer.scores]
        data = [{"index": place, "object": "score", "score": value} for place, value in enumerate(scores)]
        usage = {"total_tokens": answer.tokens}
        id = request.scope["state"]["mbr"]["id"]
        return Json({"id": id, "object": "list", "model": recipe, "data": data, "usage": usage})

    for path in ("/score", "/v1/score"):
        api.post(path, responses={200: {"model": ScoreOut}, **error_responses()})(score)


def _pairs(first: str | list[str], second: str | list[str]) -> list[tuple[str, str]]:
    """One text against many, or as many against as many."""
    hypotheses, references = ([side] if isinstance(side, str) else side for side in (first, second))
    if len(hypotheses) == 1:
        hypotheses = hypotheses * len(references)
    if not hypotheses or len(hypotheses) != len(references):
        raise InputError(
            f"text_1 has {len(hypotheses)} texts and text_2 {len(references)}; expected one text_1, or as many as "
            "text_2; send one source with all its pairs, or a request for each"
        )
    return list(zip(hypotheses, references, strict=True))


def _form_schema() -> dict[str, Any]:
    """The schema of the form, which has no null."""
    schema = LibreIn.model_json_schema()
    for name, field in schema["properties"].items():
        if name != "q" and "anyOf" in field:
            schema["properties"][name] = field["anyOf"][0]
    return schema


_LIBRE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": LibreIn.model_json_schema()},
            "application/x-www-form-urlencoded": {"schema": _form_schema()},
        },
    }
}


def _add_libretranslate(api: FastAPI, service: Service) -> None:
    @api.post("/translate", responses={200: {"model": LibreOut}, **error_responses()}, openapi_extra=_LIBRE_BODY)
    async def translate(request: Request) -> Response:
        """LibreTranslate, JSON or form."""
        body = _libre(await request.body())
        texts = [body.q] if isinstance(body.q, str) else body.q
        if len(texts) > service.settings.max_texts:
            raise too_many_texts(len(texts), service.settings.max_texts)
        translator = service.translator
        if translator is None:
            raise UsageError(NO_TRANSLATOR)
        translator.check(body.source, body.target)
        if body.format not in (None, "text"):
            raise UsageError(f"format {body.format!r:.40} is not supported; expected text; send plain text")
        recipe = service.recipe_name(None, translation=True)
        note(request, recipe=recipe)
        translations = [service.translation_request(text, recipe) for text in texts]
        ranked_texts = [_texts(answer) for answer in await answers_of(request, service, translations)]
        result: dict[str, Any] = {"translatedText": [candidates[0] for candidates in ranked_texts]}
        if body.alternatives:
            result["alternatives"] = [candidates[1 : body.alternatives + 1] for candidates in ranked_texts]
        if body.source == "auto":
            result["detectedLanguage"] = [{"confidence": 0, "language": translator.source or "auto"} for _ in texts]
        if isinstance(body.q, str):
            result = {key: value[0] for key, value in result.items()}
        return Json(result)

    @api.get("/languages", responses=error_responses(400, 408, 413))
    async def languages() -> list[dict[str, Any]]:
        """LibreTranslate's list of languages."""
        return [] if service.translator is None else service.translator.languages()


def _texts(answer: Answer) -> list[str]:
    """The candidates, best first."""
    decision = answer.decision
    assert decision is not None
    assert decision.candidates is not None
    return [decision.candidates.texts[k] for k in decision.ranking]


def _libre(raw: bytes) -> LibreIn:
    """A body as JSON or form. In a form `q` may be there several times."""
    content: Any
    try:
        if raw.lstrip()[:1] == b"{":
            content = json.loads(raw)
        else:
            form = parse_qs(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), errors="strict")
            content = {name: values[0] for name, values in form.items()}
            if len(form.get("q", ())) > 1:
                content["q"] = form["q"]
            if "alternatives" in content:
                content["alternatives"] = int(content["alternatives"])
    except (ValueError, RecursionError) as exc:
        raise Problem(400, "the body is neither valid JSON nor a valid form; send either, in UTF-8") from exc
    try:
        return LibreIn.model_validate(content)
    except ValidationError as exc:
        raise validation_problem([{**error, "loc": ("body", *error["loc"])} for error in exc.errors()]) from exc
