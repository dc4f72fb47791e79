from __future__ import annotations

import pytest
import yaml

from candidates.common.errors import UsageError
from candidates.lists import CandidateList, Origin
from mbr.compare import parse_settings
from mbr.recipe import Changes, PrefilterSpec, TermSpec, read_recipe, shipped_recipes

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
        (["pear,add=logprob:0", "pear"], [], ["pear race logprob 0", "pear race"]),
        (["chrf,add=logprob:2", "chrf,add=length:1"], [], ["chrf full logprob 2", "chrf full length 1"]),
        (["chrf,add=logprob:2"], [], ["chrf"]),
        (["chrf,add=logprob:2,add=length:-0.5", "chrf"], [], ["chrf full logprob 2 length -0.5", "chrf full"]),
        (["none,add=logprob:1"], ["race"], ["none"]),
        (["pear=a/one", "pear=b/two"], [], ["pear race one", "pear race two"]),
        (["chrf,label=mine", "chrf"], [], ["mine", "chrf"]),
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
    (setting,) = parse_settings(
        [
            "pear=f,strategy=race:0.02,add=logprob:3,add=cometkiwi:-1,add-model=cometkiwi:k,weights=uniform,"
            "prefilter=chrf:30,dtype=bf16"
        ]
    )
    recipe = setting.recipe
    assert (recipe.utility, recipe.strategy, recipe.strategy_options["tolerance"]) == ("pear", "race", 0.02)
    assert recipe.terms == (TermSpec("logprob", 3.0), TermSpec("cometkiwi", -1.0, {"model": "k"}))
    assert (recipe.weights, recipe.prefilter) == ("uniform", PrefilterSpec("chrf", 30))
    assert recipe.options == {"model": "f", "dtype": "bf16"}
    assert setting.chosen_by() == ["pear", "logprob", "cometkiwi", "chrf"]


@pytest.mark.parametrize("pair", ["threads=2", "offline=true", "device=cpu", "batch-tokens=100", "cache-dir=x"])
def test_options_that_say_how_to_run_are_no_part_of_a_setting(pair: str) -> None:
    option = pair.split("=")[0]
    with pytest.raises(UsageError, match=f"is about how to run, .* give it to the whole run \\(--{option}\\)"):
        parse_settings([f"pear,{pair}"])
    with pytest.raises(UsageError, match="term 'cometkiwi': .* is about how to run"):
        parse_settings([f"chrf,add=cometkiwi:1,add-option=cometkiwi:{pair.replace('=', ':')}"])


def test_a_setting_follows_the_origin_of_the_lists() -> None:
    bundled = yaml.safe_load(shipped_recipes()["en-de"].read_text())["fits"]["translator"][0]
    beam, other = (
        CandidateList.of("A dog.", ["Ein Hund.", "Der Hund."], origin=Origin.of({"model": model, "method": method}))
        for model, method in ((bundled, "beam"), ("another", "sample"))
    )
    pear, chrf, own = parse_settings(["pear", "chrf", "pear,add=logprob:0,weights=count,label=own"])
    common = Changes(self_rule="include", seed=7)
    assert pear.for_lists([beam], common).recipe.terms == read_recipe("en-de").terms
    assert pear.for_lists([beam], common).recipe.weights == "uniform"
    assert pear.for_lists([other], common).recipe.terms == ()
    assert chrf.for_lists([beam], common).recipe.terms == ()
    rest = tuple(term for term in read_recipe("en-de").terms if term.name != "logprob")
    assert own.for_lists([beam], common).recipe.terms == rest
    assert own.for_lists([beam], common).recipe.weights == "count"
    assert {setting.for_lists([beam], common).recipe.self_rule for setting in (pear, chrf, own)} == {"include"}
    assert pear.for_lists([beam], common).recipe.seed == 7
    assert pear.for_lists([beam], common).label == "pear race"


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
        (["pear,prior=1"], [], "has no option 'prior'"),
        (["pear,add=logprob:many"], [], "'many' is not a number"),
        (["pear,add=logprob:nan"], [], "'nan' is not a number"),
        (["pear,add=logprob"], [], "is not NAME:WEIGHT"),
        (["pear,add=logprob:1,add=logprob:2"], [], "of its own"),
        (["pear,add=nothing:1"], [], "term 'nothing' is unknown"),
        (["pear,add-model=reverse:f"], [], "'reverse', which is not added"),
        (["pear,add=logprob:1,add-model=logprob:f"], [], "term 'logprob' has no option 'model'"),
        (["chrf:1+pear:2"], [], "is unknown"),
        (["pear,budget=0"], [], "not a positive whole number"),
        (["pear,weights=heavy"], [], "is unknown"),
        (["pear,weights"], [], "is not a key=value"),
        (["pear,weights=count,weights=uniform"], [], "of its own"),
        (["pear"], ["race:x"], "not a number"),
        (["pear"], ["half:3"], "takes no number"),
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
    strategies = [(setting.label, setting.recipe.strategy) for setting in parse_settings(preset.utilities)]
    assert strategies == [("PEAR (full)", "full"), ("PEAR (sym.)", "half"), ("COMET", "full"), ("BLEURT-20", "full")]
    assert preset.nbest == 100
