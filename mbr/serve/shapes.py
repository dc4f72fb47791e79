"""The bodies of our own endpoints, as pydantic models: they check requests and make /openapi.json.

Unknown fields are refused here, so that a misspelt one is noticed; the endpoints of other APIs ignore them
(`mbr.serve.compat`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from candidates.lists import LARGEST

MOST_MILLISECONDS = 24 * 3600 * 1000
Name = Annotated[str, Field(max_length=200)]


def _whole(value: object) -> object:
    """In JSON 5.0 is a whole number, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, Field(gt=-LARGEST, lt=LARGEST), BeforeValidator(_whole)]
NotNegative = Annotated[int, Field(ge=0, le=LARGEST), BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1, le=LARGEST), BeforeValidator(_whole)]
Milliseconds = Annotated[int, Field(ge=1, le=MOST_MILLISECONDS), BeforeValidator(_whole)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class CandidateIn(Strict):
    """A candidate with what is known about it; `system` is echoed."""

    text: str
    logprob: Annotated[float, Field(gt=-LARGEST, lt=LARGEST)] | None = None
    count: Positive = 1
    system: Name | None = None


class HowToDecide(Strict):
    recipe: Name | None = Field(None, description="name of a recipe (/info); default: the service's")
    utility: Name | None = Field(None, description="instead of a recipe, a utility with its defaults")
    top: Positive = Field(1, description="candidates in `ranking`, best first")
    return_matrix: bool = False
    timeout_ms: Milliseconds | None = Field(None, description="default: the service's --timeout")
    on_deadline: Literal["error", "best"] = Field(
        "error", description="best: the best so far with `partial`, where the strategy can"
    )


class DecodeIn(HowToDecide):
    """A source and its candidate translations."""

    id: Name | Whole | None = None
    source: str
    candidates: list[str | CandidateIn] = Field(min_length=1)


_ONE_OF_BOTH: Any = {
    "oneOf": [
        {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
        {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
    ]
}


class TranslateIn(HowToDecide):
    """One text, or several."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF_BOTH)

    text: str | None = None
    texts: Annotated[list[str], Field(min_length=1)] | None = None
    nbest: Positive | None = Field(None, description="candidates to make; default: the service's --nbest")
    return_candidates: bool = False


class Ranked(BaseModel):
    text: str
    position: int
    count: int
    system: str | None = None
    score: float | None
    expected_utility: float | None
    terms: dict[str, float | None]


class Usage(BaseModel):
    passes: int
    tokens: int
    unique: int


class Matrix(BaseModel):
    """Utilities of the row's text against the column's; null where they are not known."""

    texts: list[str]
    positions: list[int]
    values: list[list[float | None]]
    scored: list[list[bool]]
    utility: str
    relation: str


class Dropped(BaseModel):
    """A candidate that guards dropped, and the guards that it breaks."""

    text: str
    position: int
    guards: list[str]


class DecodeOut(BaseModel):
    id: str | int | None
    text: str
    position: int
    system: str | None = None
    score: float | None
    expected_utility: float | None
    terms: dict[str, float | None]
    margin: float | None
    estimated_regret: float | None
    contenders: int | None
    ranking: list[Ranked]
    partial: bool
    flags: list[str]
    dropped: int | None = None
    dropped_by: dict[str, int] | None = None
    dropped_candidates: list[Dropped] | None = None
    error: str | None = None
    usage: Usage
    recipe: str
    signature: str
    matrix: Matrix | None = None
    candidates: list[dict[str, Any]] | None = None


class TranslationsOut(BaseModel):
    results: list[DecodeOut]


class ErrorOut(BaseModel):
    error: str
    error_type: str
    message: str


class StateOut(BaseModel):
    status: str


def error_responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The answers that any endpoint may give, for /openapi.json."""
    words = {
        400: "the body is not JSON",
        401: "no key, or a wrong one",
        408: "the request came too slowly",
        413: "larger than this service takes",
        422: "a value is not as expected",
        424: "scoring failed",
        429: "too much is waiting; see Retry-After",
        503: "starting or ending",
        504: "no decision in time",
    }
    return {code: {"model": ErrorOut, "description": words[code]} for code in codes or words}
