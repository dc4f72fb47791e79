"""The endpoints of mbr-serve, from its OpenAPI schema, as tables. No model is loaded."""

from __future__ import annotations

import json
from typing import Any

from fastapi.openapi.utils import get_openapi

from mbr.serve.app import create_api
from mbr.serve.metrics import Metrics
from mbr.serve.service import Service
from mbr.serve.settings import Settings

Schema = dict[str, Any]


def endpoint_tables() -> str:
    """A heading per endpoint with its body and answers, then a table per shape, in Markdown."""
    with Service(Settings()) as service:
        api = create_api(service, Metrics())
        schema = get_openapi(title=api.title, version=api.version, routes=api.routes)
    lines: list[str] = []
    shapes: dict[str, None] = {}
    for path, methods in sorted(schema["paths"].items(), key=lambda entry: (not entry[0].startswith("/v1"), entry[0])):
        for method, endpoint in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", endpoint.get("description", ""), ""]
            lines += _endpoint(endpoint, shapes)
    lines += _shapes(schema["components"]["schemas"], list(shapes))
    return "\n".join(lines) + "\n"


def _endpoint(endpoint: Schema, shapes: dict[str, None]) -> list[str]:
    lines = []
    for kind, content in endpoint.get("requestBody", {}).get("content", {}).items():
        if "properties" in content["schema"]:
            lines += [f"Body (`{kind}`):", "", *_fields(content["schema"], shapes), ""]
        else:
            lines += [f"Body (`{kind}`): {_type(content['schema'], shapes)}", ""]
    lines += ["| status | answer |", "| --- | --- |"]
    for status, response in endpoint["responses"].items():
        kinds = [
            _type(content["schema"], shapes)
            for content in response.get("content", {}).values()
            if content.get("schema")
        ]
        words = response["description"] if status != "200" or not kinds else ""
        lines.append(f"| {status} | {': '.join(part for part in (words, ', '.join(kinds)) if part)} |")
    return lines


def _shapes(definitions: dict[str, Schema], names: list[str]) -> list[str]:
    """The tables of the shapes, and of the shapes that they name."""
    lines = ["", "## Shapes"]
    done: dict[str, None] = {}
    while rest := [name for name in names if name not in done]:
        name = rest[0]
        done[name] = None
        named: dict[str, None] = {}
        shape = definitions[name]
        lines += ["", f"### {name}", "", shape.get("description", ""), "", *_fields(shape, named)]
        names += [other for other in named if other not in names]
    return lines


def _fields(shape: Schema, named: dict[str, None]) -> list[str]:
    lines = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in shape.get("properties", {}).items():
        needed = name in shape.get("required", ())
        default = "required" if needed else f"`{_json(field['default'])}`" if "default" in field else ""
        lines.append(f"| `{name}` | {_type(field, named)} | {default} | {field.get('description', '')} |")
    return lines


def _json(value: Any) -> str:
    return json.dumps(value)


def _type(schema: Schema, named: dict[str, None]) -> str:
    """A type in words; shapes become links, and are noted."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        named[name] = None
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option, named) for option in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{_json(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], named)}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values, named)}" if isinstance(values, dict) and values else "object"
    return str(schema.get("type", "any"))
