"""/openapi.json as this service stands now: names of recipes and languages, and its limits, are part of the schema."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mbr.serve.service import Service

# Fields with the name of a recipe, and arrays that are limited like candidates, by shape.
RECIPES = (("DecodeIn", "recipe"), ("TranslateIn", "recipe"), ("RerankIn", "model"), ("Rerank2In", "model"),
           ("ScoreIn", "model"))  # fmt: skip
LISTS = (("DecodeIn", "candidates"), ("RerankIn", "documents"), ("Rerank2In", "documents"), ("TeiIn", "texts"))
NOT_BOTH = {
    "not": {
        "required": ["recipe", "utility"],
        "properties": {"recipe": {"type": "string"}, "utility": {"type": "string"}},
    }
}


def use_current_schema(api: FastAPI, service: Service) -> None:
    """Have the application answer /openapi.json with the present names and limits."""
    plain: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not plain:
            plain.update(get_openapi(title=api.title, version=api.version, routes=api.routes))
        return _filled(deepcopy(plain), service)

    api.openapi = openapi  # type: ignore[method-assign]


def _filled(schema: dict[str, Any], service: Service) -> dict[str, Any]:
    shapes = schema["components"]["schemas"]
    recipes = list(service.scheduler.recipes)
    utilities = list(dict.fromkeys(decoder.utility.name for decoder in service.scheduler.recipes.values()))
    most = service.settings.max_candidates
    for shape, name in RECIPES:
        _names(shapes[shape]["properties"], name, recipes)
    for shape in ("DecodeIn", "TranslateIn"):
        _names(shapes[shape]["properties"], "utility", utilities)
        shapes[shape].setdefault("allOf", []).append(NOT_BOTH)
    for shape, name in LISTS:
        shapes[shape]["properties"][name]["maxItems"] = most
    translate = shapes["TranslateIn"]["properties"]
    translate["texts"]["anyOf"][0]["maxItems"] = service.settings.max_texts
    translate["nbest"]["anyOf"][0]["maximum"] = most
    for name in ("text_1", "text_2"):
        shapes["ScoreIn"]["properties"][name]["anyOf"][1] |= {"minItems": 1, "maxItems": most}
    _fill_languages(schema["paths"]["/translate"]["post"], service)
    return schema


def _names(properties: dict[str, Any], name: str, names: list[str]) -> None:
    about = {key: value for key, value in properties[name].items() if key in ("title", "description")}
    properties[name] = {**about, "enum": [*names, None]}


def _fill_languages(endpoint: dict[str, Any], service: Service) -> None:
    translator = service.translator
    for content in endpoint["requestBody"]["content"].values():
        properties = content["schema"]["properties"]
        properties["q"]["anyOf"][1]["maxItems"] = service.settings.max_texts
        nothing = [None] if "anyOf" in properties["format"] else []
        properties["format"] = {"enum": ["text", *nothing]}
        if translator is not None and translator.source and translator.target:
            properties["source"] = {"enum": [translator.source, "auto"]}
            properties["target"] = {"enum": [translator.target]}
