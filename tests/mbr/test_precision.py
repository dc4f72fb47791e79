"""dtype `auto` in decoding: what the first list decides, what is recorded, and that a resumed run keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from candidates.command.journal import recorded_settings
from candidates.lists import CandidateList
from mbr import Recipe, decode, open_decoder
from mbr.cli.decode.command import command
from mbr.recipe import PrefilterSpec, TermSpec
from mbr.recipe.plan import with_precision, with_precisions_of
from mbr.signature import Signature
from mbr.utilities.settling import MOST_COMPARED, spread
from pear.runtime import choice, precision
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

TEXTS = ("Ein Hund rennt.", "Der Hund rennt.", "Ein Hund läuft im Garten.", "Eine Katze schläft.")
LIST = CandidateList.of("A dog runs.", TEXTS)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A processor that has bf16 and nothing faster, an empty cache, and probes that agree."""
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "faster_precisions", lambda device: ("bf16",))
    monkeypatch.setattr(precision, "MOST_ERROR", 1.0)
    monkeypatch.setattr(choice, "MOST_REGRET", 1.0)


@pytest.mark.parametrize(("loss", "chosen"), [(1.0, "bf16"), (-1.0, "float32")])
def test_the_first_list_may_refuse_what_the_probes_allowed(
    ours: Path, monkeypatch: pytest.MonkeyPatch, loss: float, chosen: str
) -> None:
    monkeypatch.setattr(choice, "MOST_REGRET", loss)
    recipe = Recipe("pear", {"model": str(ours), "dtype": "auto"}).complete()
    for first in (LIST, None):  # the second time it is remembered
        with open_decoder(recipe, runtime={"device": "cpu"}, first=first) as decoder:
            assert decoder.signature()["dtype"] == chosen
            assert decoder.recipe.options["dtype"] == chosen


def test_without_a_list_the_probes_decide(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_REGRET", -1.0)
    recipe = Recipe("pear", {"model": str(ours), "dtype": "auto"}).complete()
    with open_decoder(recipe, runtime={"device": "cpu"}) as decoder:
        assert decoder.recipe.options["dtype"] == "bf16"


def test_terms_and_first_stages_choose_as_utilities_do(ours: Path) -> None:
    options = {"model": str(ours)}
    recipe = with_precision(
        Recipe("chrf", terms=(TermSpec("pear", 1.0, options),), prefilter=PrefilterSpec("pear", 3, options)), "auto"
    ).complete()
    with open_decoder(recipe, runtime={"device": "cpu"}, first=LIST) as decoder:
        fields = decoder.signature()
        assert (fields["add.pear.dtype"], fields["prefilter.dtype"]) == ("bf16", "bf16")
        assert decoder.recipe.terms[0].options["dtype"] == "bf16"
        assert decoder.recipe.prefilter is not None
        assert decoder.recipe.prefilter.options["dtype"] == "bf16"
        assert "auto" not in str(fields).replace("automatic", "")


def test_auto_chooses_as_the_precision_that_it_names(ours: Path) -> None:
    def decided(dtype: str) -> list[Any]:
        options = {"model": str(ours), "device": "cpu", "dtype": dtype}
        return [decision.record() for decision in decode([LIST] * 2, "pear", strategy="full", **options)]

    assert decided("auto") == decided("bf16")
    assert decided("auto") != decided("float32")


def test_python_is_the_command(ours: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = write_jsonl(tmp_path / "l.jsonl", [{"source": LIST.source, "candidates": list(TEXTS)}] * 2)
    words = ["--utility", "pear", "--model", str(ours), "--device", "cpu", "--dtype", "auto", "--format", "jsonl"]
    assert command([*words, "--candidates", str(file), "--quiet"]) == 0
    options = {"model": str(ours), "device": "cpu", "dtype": "auto"}
    lists = [CandidateList.of(LIST.source, TEXTS, id=number) for number in range(2)]
    python = "".join(json.dumps(d.record(), ensure_ascii=False) + "\n" for d in decode(lists, "pear", **options))
    assert capsysbinary.readouterr().out.decode() == python


def test_a_resumed_run_keeps_the_precision_that_was_chosen_at_first(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mbr.cli.decode.tally import Tally

    file = write_jsonl(tmp_path / "l.jsonl", [{"source": LIST.source, "candidates": list(TEXTS)}] * 3)
    words = ["--utility", "pear", "--model", str(ours), "--device", "cpu", "--dtype", "auto", "--format", "jsonl"]
    words += ["--candidates", str(file), "--quiet"]
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    assert command([*words, "-o", str(whole)]) == 0
    with monkeypatch.context() as killing:
        killing.setattr(Tally, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            command([*words, "-o", str(broken)])
    begun = recorded_settings(broken)
    assert begun is not None
    assert Signature.parse(begun["signature"])["dtype"] == "bf16"
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "another-cache"))
    monkeypatch.setattr(precision, "MOST_ERROR", 0.0)  # a new run would take float32
    assert command([*words, "-o", str(broken), "--resume"]) == 0
    assert broken.read_bytes() == whole.read_bytes()
    assert command([*words, "-o", str(tmp_path / "new.jsonl")]) == 0
    assert (tmp_path / "new.jsonl").read_bytes() != whole.read_bytes()
    assert recorded_settings(tmp_path / "new.jsonl") is None


def test_a_run_records_the_precision_and_sends_it_to_workers(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mbr.cli.decode import cluster

    plans = []

    @contextmanager
    def no_cluster(plan: Any, *_: Any) -> Iterator[None]:
        plans.append(plan)
        yield None

    monkeypatch.setattr(cluster, "on_cluster", no_cluster)
    file = write_jsonl(tmp_path / "l.jsonl", [{"source": LIST.source, "candidates": list(TEXTS)}])
    words = ["--utility", "pear", "--model", str(ours), "--device", "cpu", "--dtype", "auto", "--quiet"]
    assert command([*words, "--candidates", str(file), "-o", str(tmp_path / "out.txt")]) == 0
    assert [plan.recipe.options["dtype"] for plan in plans] == ["bf16"]
    assert "dtype: bf16" in (tmp_path / "out.txt.run.yaml").read_text(encoding="utf-8")


def test_precisions_of_a_signature_replace_auto_only() -> None:
    recipe = Recipe(
        "pear",
        {"model": "m", "dtype": "auto"},
        terms=(TermSpec("single", 1.0, {"dtype": "float32"}), TermSpec("bleurt", 1.0, {"dtype": "auto"})),
    )
    signature = {"dtype": "int8", "add.single.dtype": "bf16", "add.bleurt.dtype": "bf16"}
    kept = with_precisions_of(recipe, signature)
    assert kept.options["dtype"] == "int8"
    assert [term.options["dtype"] for term in kept.terms] == ["float32", "bf16"]
    assert with_precisions_of(recipe, {}) == recipe


def test_a_list_is_checked_on_candidates_from_its_whole_length() -> None:
    texts = [f"text {number}" for number in range(100)]
    some = spread(texts, MOST_COMPARED)
    assert len(some) == MOST_COMPARED
    assert (some[0], some[-1]) == ("text 0", "text 99")
    assert spread(texts[:3], MOST_COMPARED) == texts[:3]
