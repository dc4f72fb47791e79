"""schemathesis: requests made from /openapi.json, right and wrong ones, get the answers that it declares."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from candidates.generation import Settings as Search
from candidates.generation import open_generator
from mbr.opening import open_decoder
from mbr.recipe import Recipe
from mbr.serve.settings import Settings
from mbr.serve.translator import Translator
from tests.mbr.serve.conftest import Site, site

pytestmark = pytest.mark.one_world

# A deadline of a millisecond is no failure of the server, and a schema cannot say that two lists have the same length.
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
negative_data_rejection.expected-statuses = [400, 401, 404, 405, 408, 413, 422, 503, 504]

[[operations]]
include-path-regex = "/score$"
checks.positive_data_acceptance.enabled = false
"""


@pytest.fixture(scope="module")
def where() -> Iterator[Site]:
    with Translator(open_generator(Search(nbest=3), threads=1)) as translator:
        decoders = {name: open_decoder(Recipe(name)) for name in ("chrf", "bleu")}
        limits = Settings(max_candidates=9, nbest=3, max_texts=3, timeout=5.0)
        with site(decoders, translator, settings=limits) as running:
            yield running


def test_schemathesis_finds_nothing(where: Site, tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    program = Path(sys.executable).with_name("schemathesis")
    words = ["--config-file", str(config), "run", f"{where.address}/openapi.json", "--max-examples", "4", "--seed", "1"]
    words += ["--phases", "coverage,fuzzing", "--no-color"]
    done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert "No issues found" in done.stdout
    assert where.errors == []


def test_the_schema_names_what_is_served_and_its_limits(where: Site) -> None:
    shapes = httpx.get(f"{where.address}/openapi.json").json()["components"]["schemas"]
    assert shapes["DecodeIn"]["properties"]["recipe"]["enum"] == ["chrf", "bleu", None]
    assert shapes["DecodeIn"]["properties"]["candidates"]["maxItems"] == 9
    assert shapes["DecodeIn"]["additionalProperties"] is False
