from __future__ import annotations

from typing import Any

import pytest

from candidates.common.errors import UsageError
from mbr.compare import parse_settings

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize(
    ("utilities", "strategies", "labels"),
    [
        (["pear"], [], ["pear race"]),
        (["pear", "chrf", "cometkiwi"], ["half", "race"], ["pear half", "pear race", "chrf", "cometkiwi"]),
        (["pear", "comet"], ["full", "half"], ["pear full", "pear half", "comet"]),
        (["pear,strategy=half", "pear"], ["race"], ["pear half", "pear race"]),
        (["pear"], ["race", "race:0.05"], ["pear race", "pear race 0.05"]),
        (
            ["pear,strategy=halving:200", "pear,strategy=halving,budget=500"],
            [],
            ["pear halving 200", "pear halving 500"],
        ),
        (["pear,prior=0", "pear"], [], ["pear race prior 0", "pear race"]),
        (["pear=a/one", "pear=b/two"], [], ["pear race one", "pear race two"]),
        (["chrf,label=mine", "chrf"], [], ["mine", "chrf"]),
        (["chrf:1+pear:2"], ["race"], ["chrf:1+pear:2"]),
        (["pear,label=P"], ["race", "half"], ["P race", "P half"]),
        (["pear,label=P"], ["race"], ["P"]),
        (["chrf,prefilter=bleu:20", "chrf"], [], ["chrf full after bleu:20", "chrf full"]),
        (["ter"], ["aggregate", "full"], ["ter"]),
        (["bleu"], ["aggregate", "full"], ["bleu aggregate", "bleu full"]),
    ],
)
def test_labels_tell_settings_apart(utilities: list[str], strategies: list[str], labels: list[str]) -> None:
    assert [setting.label for setting in parse_settings(utilities, strategies)] == labels


def test_all_of_a_setting() -> None:
    (one,) = parse_settings(
        ["pear=f,strategy=race:0.02,prior=3,weights=uniform,prefilter=chrf:30,dtype=bf16,offline=true,threads=2"]
    )
    assert (one.utility, one.strategy, one.tolerance, one.prior) == ("pear", "race", 0.02, 3.0)
    assert (one.weights, one.prefilter) == ("uniform", "chrf:30")
    assert one.options == {"model": "f", "dtype": "bf16", "offline": True, "threads": 2}
    assert one.chosen_by() == ["pear", "chrf"]


@pytest.mark.parametrize(
    ("utilities", "strategies", "message"),
    [
        (["nothing"], [], "'nothing' is unknown"),
        ([""], [], "expected NAME"),
        (["pear="], [], "expected NAME"),
        (["pear,strategy=nothing"], [], "strategy 'nothing' is unknown"),
        (["chrf"], ["nothing"], "strategy 'nothing' is unknown"),
        (["chrf,strategy=race"], [], "needs an antisymmetric utility"),
        (["cometkiwi,strategy=full"], [], "rates each candidate by itself"),
        (["chrf,colour=blue"], [], "has no option 'colour'"),
        (["chrf=model"], [], "has no option 'model'"),
        (["pear,prior=many"], [], "not a number from 0 on"),
        (["pear,prior=nan"], [], "not a number from 0 on"),
        (["pear,prior=-1"], [], "not a number from 0 on"),
        (["pear,budget=0"], [], "not a positive whole number"),
        (["pear,weights=heavy"], [], "is unknown"),
        (["pear,prior"], [], "is not a key=value"),
        (["pear,prior=1,prior=2"], [], "of its own"),
        (["pear"], ["race:x"], "not a number"),
        (["pear"], ["half:3"], "goes with strategy"),
        (["pear,strategy=race:0.1,tolerance=0.2"], [], "twice"),
        (["pear,prefilter=chrf"], [], "expected NAME:K"),
        (["pear,prefilter-model=x"], [], "goes with prefilter"),
        (["chrf", "chrf"], [], "two settings are called"),
        (["chrf,label=a\nb"], [], "no label"),
        (["chrf,label= "], [], "no label"),
    ],
)
def test_what_makes_no_sense(utilities: list[str], strategies: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_settings(utilities, strategies)


def test_presets_are_settings_and_judges_that_exist() -> None:
    from mbr.compare.presets import PRESETS, get_preset
    from mbr.evaluate import parse_judges
    from mbr.metrics.released import RELEASES

    for name, preset in PRESETS.items():
        assert len(parse_settings(preset.utilities)) == len(preset.utilities), name
        assert parse_judges(preset.judges)
        assert all(model in RELEASES or model == "pear" for model in preset.models.values())
    with pytest.raises(UsageError, match="pear-table2"):
        get_preset("table9")


def test_table_2_is_that_of_the_paper() -> None:
    from mbr.compare.presets import get_preset

    preset = get_preset("pear-table2")
    found: list[Any] = [(one.label, one.make_strategy().name) for one in parse_settings(preset.utilities)]
    assert found == [("PEAR (full)", "full"), ("PEAR (sym.)", "half"), ("COMET", "full"), ("BLEURT-20", "full")]
    assert preset.nbest == 100
