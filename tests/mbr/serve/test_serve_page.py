"""docs/serve.md and the dashboard name what there is: limits, endpoints, metrics; its snippets run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields

import pytest

from candidates.generation import Settings as Search
from candidates.generation import open_generator
from mbr.opening import open_decoder
from mbr.recipe import Recipe, read_recipe
from mbr.serve.metrics import Metrics
from mbr.serve.settings import Settings, flag
from mbr.serve.shapes import DecodeOut
from mbr.serve.translator import Translator
from tests.conftest import ROOT
from tests.mbr.serve.conftest import Site, site
from tests.support.pages import blocks, page

pytestmark = pytest.mark.one_world

PAGE = page("docs/serve.md")
SNIPPETS = blocks(PAGE, "python")


@pytest.fixture(scope="module")
def where() -> Iterator[Site]:
    with Translator(open_generator(Search(nbest=4), threads=1)) as translator:
        decoders = {name: open_decoder(Recipe("chrf")) for name in ("default", "chrf")}
        with site(decoders, translator) as running:
            yield running


@pytest.mark.parametrize("code", SNIPPETS, ids=range(len(SNIPPETS)))
def test_the_snippets_run(code: str, where: Site) -> None:
    code = code.replace("http://127.0.0.1:8080", where.address)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def test_the_curl_lines_are_valid_requests(where: Site) -> None:
    lines = re.findall(r"curl -d '(\{.*?\})' localhost:8080(/\S+)", PAGE, re.DOTALL)
    assert len(lines) == 2
    for body, path in lines:
        assert where.post(path, json.loads(body)).status_code == 200


def test_the_example_answer_has_the_shape_of_an_answer(where: Site) -> None:
    (example,) = [json.loads(block) for block in blocks(PAGE, "json")]
    answer = where.post("/v1/translate", {"text": "A dog runs."}).json()
    assert list(example) == list(answer)
    assert list(example["usage"]) == list(answer["usage"])
    assert list(example["ranking"][0]) == list(answer["ranking"][0])
    assert list(example["terms"]) == [term.name for term in read_recipe("en-de").terms]
    DecodeOut.model_validate(example)


def test_every_limit_is_there_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(--[\w-]+)` \| ([\d,]+)", PAGE, re.MULTILINE))
    defaults = {flag(limit.name): f"{limit.default:,.0f}" for limit in fields(Settings)}
    assert rows == defaults


def test_every_endpoint_is_there(where: Site) -> None:
    paths = where.http.get("/openapi.json").json()["paths"]
    assert [path for path in paths if f"`{path}`" not in PAGE and f" {path}`" not in PAGE] == []


def test_every_metric_is_there_and_on_the_dashboard() -> None:
    exposed = Metrics().exposition().decode()
    names = re.findall(r"^# TYPE (mbr_\w+) (?:counter|gauge|histogram)", exposed, re.MULTILINE)
    names = [name for name in names if not name.endswith("_created")]
    assert len(names) > 12
    dashboard = (ROOT / "docs" / "serve-grafana.json").read_text(encoding="utf-8")
    for name in names:
        assert name in PAGE, name
        assert name in dashboard, name
    for used in set(re.findall(r"mbr_\w+", dashboard)):
        assert re.sub("_bucket$", "", used) in names, used
    assert {panel["type"] for panel in json.loads(dashboard)["panels"]} == {"timeseries"}
