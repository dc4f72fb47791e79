from __future__ import annotations

import pytest

from mbr.evaluate.checks import check_outputs
from mbr.guards.copied import is_copied
from mbr.guards.notation import numbers
from mbr.guards.numbers import changed_numbers

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 and 1.000 and 1 000 and 1'000 and 1\u202f000", ["1000"] * 5),
        ("1,234,567.89 or 1.234.567,89", ["1234567.89"] * 2),
        ("2.5 and 2,5", ["2.5", "2.5"]),
        ("1,00,000 rupees", ["100000"]),
        ("in 2020 100 people", ["2020", "100"]),
        ("007 and 0", ["7", "0"]),
        ("COVID-19, B2B", ["19", "2"]),
        ("12.03.2020", ["12/3/2020"]),
        ("2.5 million, 3 Mrd. and 1.2万", ["2500000", "3000000000", "12000"]),
        ("5 billion, 5 Billionen", ["5000000000", "5000000000000"]),
        ("£5m, 5m", ["5000000", "5"]),
        ("3.50 and 3,5", ["3.5", "3.5"]),
        ("٣٫٥ and ١٬٠٠٠ and ५ and ２０", ["3.5", "1000", "5", "20"]),
        ("1,0000", ["1"]),
        ("at 5:00, 17:00:00, 5:30, 5.30 Uhr and 5:00:30", ["5", "17", "5:30", "5:30", "5:0:30"]),
        ("none, x², Ⅳ", []),
    ],
)
def test_numbers_have_one_spelling(text: str, expected: list[str]) -> None:
    assert [number.value for number in numbers(text)] == expected


@pytest.mark.parametrize(
    ("source", "output", "references", "expected"),
    [
        ("It costs 1,000 euros.", "Es kostet 1.000 Euro.", [], ([], [])),
        ("It costs 1,000 euros.", "Es kostet 100 Euro.", [], (["1000"], ["100"])),
        ("3 dogs", "drei Hunde", [], ([], [])),
        ("three dogs", "3 Hunde", [], ([], [])),
        ("3 dogs", "5 Hunde", [], (["3"], ["5"])),
        ("30 dogs", "Hunde", [], (["30"], [])),
        ("at 5:30 pm", "um 5.30 Uhr", [], ([], [])),
        ("at 5:30 pm", "um 17.30 Uhr", ["um 17:30 Uhr"], ([], [])),
        ("03/12/2020", "12.03.2020", [], ([], [])),
        ("2.5 kg", "25 kg", [], (["2.5"], ["25"])),
        ("7 and 70", "70 und 7", [], ([], [])),
        ("20 of 20", "20", [], (["20"], [])),
        ("100 years", "ein Jahrhundert", ["ein Jahrhundert"], ([], [])),
        ("20 of 20", "20", ["20"], ([], [])),
        ("5 of 10 dogs", "5 von 5 Hunden", ["5 von 10 Hunden"], (["10"], ["5"])),
        ("200 dogs", "200 Hunde, 200 Katzen", ["200 Hunde"], ([], ["200"])),
        ("20, 20 and 20", "20", ["20, 20", "20 und 20"], (["20"], [])),
        ("900 thousand", "900,000", [], ([], [])),
        ("1.5 million or 2 billion", "1.500.000 oder 2,000,000,000", [], ([], [])),
        ("1,500 dogs", "15 Hunde", [], (["1500"], ["15"])),
        ("COVID-19 is here", "Corona ist da", [], ([], [])),
        ("Corona ist da", "COVID‑19 is here", [], ([], [])),
        ("COVID-19 in 2020", "COVID-19 in 2021", [], (["2020"], ["2021"])),
        ("ב-2020", "in 2020", [], ([], [])),
        ("ב-2020", "then", [], (["2020"], [])),
        ("3.50 euros", "3,5 Euro", [], ([], [])),
        ("3.50 euros", "3,05 Euro", [], (["3.5"], ["3.05"])),
        ("12.10.2020", "12/10/2020", [], ([], [])),
        ("at 5 pm on 14 May", "am 14. Mai um 5:00", [], ([], [])),
        ("at 5:00 on 14 May", "am 15. Mai um 5.00", [], (["14"], ["15"])),
        ("at 5:30", "um 5:00", [], (["5:30"], ["5"])),
        ("٢٠ يوما", "20 days", [], ([], [])),
    ],
)
def test_changed_numbers(
    source: str, output: str, references: list[str], expected: tuple[list[str], list[str]]
) -> None:
    assert changed_numbers(source, output, references) == expected


@pytest.mark.parametrize(
    ("source", "output", "references", "expected"),
    [
        ("We saw two birds.", "we  saw two BIRDS.", [], True),
        ("We saw two birds.", "Wir sahen zwei Vögel.", [], False),
        ("We saw two birds.", "We saw two birds.", ["We saw two birds."], False),
        ("New York", "New York", [], False),
        ("1 2 3 4 5", "1 2 3 4 5", [], False),
        ("https://example.org/very/long", "https://example.org/very/long", [], False),
        ("狗在公园里跑得很快很快。", "狗在公园里跑得很快很快。", [], True),
        ("", "", [], False),
    ],
)
def test_copied_sources(source: str, output: str, references: list[str], expected: bool) -> None:
    assert is_copied(source, output, references) is expected


LONG = "This sentence is here to be translated, and it is neither short nor very long."


@pytest.mark.parametrize(
    ("source", "output", "flags"),
    [
        (LONG, LONG.replace("e", "a"), ()),
        (LONG, "", ("empty",)),
        (LONG, " \t", ("empty",)),
        ("", "", ()),
        (LONG, LONG.replace("e", "a")[:50], ("cut",)),
        (LONG, LONG.replace("e", "a")[:20], ("length", "cut")),
        (LONG, LONG.replace("e", "a")[:20] + ".”", ("length",)),
        (LONG.rstrip("."), LONG.replace("e", "a")[:50], ()),
        (LONG, LONG.replace("e", "a") * 3, ("length",)),
        ("Yes.", "Selbstverst", ()),
    ],
)
def test_flags_of_one_output_among_usual_ones(source: str, output: str, flags: tuple[str, ...]) -> None:
    usual = [LONG] * 5
    checks = check_outputs([*(text.replace("e", "a") for text in usual), output], [*usual, source], [])
    assert checks.flags == ((),) * 5 + (flags,)


def test_lengths_are_measured_against_the_reference_where_there_is_one() -> None:
    checks = check_outputs(["abcd"] * 4, ["a" * 40] * 4, [["abcdefgh"] * 4])
    assert checks.length_ratio == 0.5
    assert checks.flags == ((),) * 4  # this system is always like that, so no single output stands out


def test_segments_are_counted_from_one() -> None:
    assert check_outputs(["x", ""], ["a", "b"], []).segments("empty") == [2]


def test_outputs_without_sources_are_checked_against_references() -> None:
    assert check_outputs(["20 x"], None, [["30 y"]]).flags == (("numbers",),)
