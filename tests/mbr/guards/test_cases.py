"""Guard by guard: what is right and what is wrong, in several scripts and syntaxes."""

from __future__ import annotations

import pytest

from mbr.guards import ListTexts, get_guard, guard_names

pytestmark = pytest.mark.one_world

PLURAL = "{count, plural, one {# file in {folder}} other {# files in {folder}}}"
LONG = "Das ist ein Satz, der weder besonders kurz noch besonders lang ist, und er endet hier."
EN = "This is a sentence that is neither very short nor very long, and it ends right here."

# guard, source, candidate, whether the candidate keeps the rule
CASES: list[tuple[str, str, str, bool]] = [
    # printf
    ("placeholders", "You have %d files.", "Sie haben %d Dateien.", True),
    ("placeholders", "You have %d files.", "Sie haben Dateien.", False),
    ("placeholders", "You have %d files.", "Sie haben %s Dateien.", False),
    ("placeholders", "%s of %s", "%2$s: davon %1$s", True),
    ("placeholders", "%1$s of %2$d", "%2$d, davon %1$s", True),
    ("placeholders", "%1$s of %2$d", "%1$s von %2$s", False),
    ("placeholders", "%s has %d", "%d hat %s", False),
    ("placeholders", "Hi %(name)s, %(count)d new", "%(count)d neu, %(name)s", True),
    ("placeholders", "Hi %(name)s", "Hallo %(Name)s", False),
    ("placeholders", "Hi %(name)s", "Hallo % (name) s", False),
    ("placeholders", "100%% of %s", "100 %% von %s", True),
    ("placeholders", "100%% of %s", "100 % von %s", False),
    ("placeholders", "%5.2f km", "%5.2f km", True),
    ("placeholders", "%5.2f km", "%5,2f km", False),
    ("placeholders", "%@ sent you %@", "%1$@ 给你发送了 %2$@", True),
    ("placeholders", "%{user} likes this", "%{user} はいいねしました", True),
    ("placeholders", "A 100 percent sure thing", "Eine 100 %ige Sache", True),
    ("placeholders", "20% for all, 5% discount", "20 % für alle, 5% der Rabatt", True),
    ("placeholders", "一共 %d 个文件", "%d files in total", True),
    ("placeholders", "一共 %d 个文件", "Files in total", False),
    # Python and Java
    ("placeholders", "{} of {}", "{} von {}", True),
    ("placeholders", "{} of {}", "{1} hat {0}", True),
    ("placeholders", "{} of {}", "{} von", False),
    ("placeholders", "{name!r:>10} is {0}", "{0} ist {name!r:>10}", True),
    ("placeholders", "{name!r:>10} is new", "{name} ist neu", False),
    ("placeholders", "Hello {name}", "Привет, {name}", True),
    ("placeholders", "Hello {name}", "Привет, {имя}", False),
    ("placeholders", "{0} of {1}", "{1} من {0}", True),
    ("placeholders", "{0} of {1}", "{0} من {0}", False),
    ("placeholders", "{0,number,#.##} km", "{0,number,#.##} km", True),
    ("placeholders", "{0,number,#.##} km", "{0} km", False),
    ("placeholders", "Hello", "Hallo {name}", False),
    # ICU MessageFormat
    ("placeholders", PLURAL, "{count, plural, one {# Datei in {folder}} other {# Dateien in {folder}}}", True),
    (
        "placeholders",
        PLURAL,
        "{count, plural, one {# plik w {folder}} few {# pliki w {folder}} other {# plików w {folder}}}",
        True,
    ),
    ("placeholders", PLURAL, "{count, plural, other {{folder} 中有 # 个文件}}", True),
    ("placeholders", PLURAL, "{Anzahl, plural, one {# Datei in {folder}} other {# Dateien in {folder}}}", False),
    ("placeholders", PLURAL, "{count, plural, one {# Datei} other {# Dateien}}", False),
    ("placeholders", PLURAL, "{count, plural, one {# Datei in {folder}}}", False),
    ("placeholders", PLURAL, "{count, plural, one {eine Datei in {folder}} other {# Dateien in {folder}}}", True),
    ("placeholders", PLURAL, "{count, plural, one {# Datei in {folder}} other {Dateien in {folder}}}", False),
    ("placeholders", "{n, plural, other {files}}", "{n, plural, other {# Dateien}}", False),
    (
        "placeholders",
        "{sex, select, male {He} female {She} other {They}} left",
        "{sex, select, male {Er} female {Sie} other {Sie}} ging",
        True,
    ),
    (
        "placeholders",
        "{sex, select, male {He} female {She} other {They}} left",
        "{sex, select, männlich {Er} weiblich {Sie} other {Sie}} ging",
        False,
    ),
    # templates
    ("placeholders", "Dear ${user.name}", "Liebe ${ user.name }", True),
    ("placeholders", "Dear ${user.name}", "Liebe $ {user.name}", False),
    ("placeholders", "Hi {{ name }}!", "Hallo {{name}}!", True),
    ("placeholders", "Hi {{ name }}!", "Hallo {name}!", False),
    ("placeholders", "{% if x %}yes{% endif %}", "{% if x %}ja{% endif %}", True),
    ("placeholders", "{% if x %}yes{% endif %}", "{% wenn x %}ja{% endif %}", False),
    # tags
    ("tags", "Click <b>here</b> now", "<b>Hier</b> jetzt klicken", True),
    ("tags", "Click <b>here</b> now", "Hier jetzt klicken", False),
    ("tags", "Click <b>here</b> now", "<b>Hier<b> jetzt klicken", False),
    ("tags", "Click <b>here</b> now", "<b>Hier jetzt klicken", False),
    ("tags", "<i><b>a</b></i>", "<i><b>ein</b></i>", True),
    ("tags", "<i><b>a</b></i>", "<b><i>ein</i></b>", False),
    ("tags", "<i>a</i> <b>b</b>", "<b>б</b> <i>а</i>", True),
    ("tags", "<i>a</i> <b>b</b>", "<i>а <b>б</i></b>", False),
    ("tags", "One<br>two", "Eins<br>zwei", True),
    ("tags", "One<br/>two", "Eins zwei", False),
    ("tags", '<a href="/x" title="Go">x</a>', '<a title="Los" href="/x">x</a>', True),
    ("tags", '<a href="/x">x</a>', '<a href="/y">x</a>', False),
    ("tags", '<g id="1">a</g><x id="2"/>', '<x id="2"/><g id="1">あ</g>', True),
    ("tags", "<0>Read</0> this", "<0>اقرأ</0> هذا", True),
    ("tags", "<0>Read</0> this", "<1>اقرأ</1> هذا", False),
    ("tags", "a < b and c > d", "a < b und c > d", True),
    ("tags", "and so</b> on", "und so</b> weiter", True),
    ("tags", "See <URL>", "Siehe < URL>", False),
    # numbers
    ("numbers", "It costs 1,000.5 euros.", "Es kostet 1.000,5 Euro.", True),
    ("numbers", "It costs 1,000.5 euros.", "Es kostet 1.005 Euro.", False),
    ("numbers", "It costs 1,000.5 euros.", "Il coûte 1\u202f000,5 euros.", True),
    ("numbers", "3 dogs", "drei Hunde", True),
    ("numbers", "3 dogs", "fünf Hunde", False),
    ("numbers", "two of 5 dogs", "2 von fünf Hunden", True),
    ("numbers", "two of 5 dogs", "2 von sechs Hunden", False),
    ("numbers", "Twelve people", "12 Personen", True),
    ("numbers", "Twelve people", "13 Personen", False),
    ("numbers", "the 2nd of May", "der zweite Mai", True),
    ("numbers", "in the 21st century", "im 21. Jahrhundert", True),
    ("numbers", "in the 21st century", "im 20. Jahrhundert", False),
    ("numbers", "the 1990s", "die 90er", True),
    ("numbers", "the 1990s", "die 80er", False),
    ("numbers", "in 2020/21", "2020/2021", True),
    ("numbers", "at 5 pm", "um 17 Uhr", True),
    ("numbers", "at 5 pm", "um 18 Uhr", False),
    ("numbers", "A crash around 1.30pm", "Ein Unfall gegen 13.30 Uhr", True),
    ("numbers", "at 5:30 pm", "um 17.30 Uhr", True),
    ("numbers", "2.5 million", "2,5 Mio.", True),
    ("numbers", "900 thousand", "900.000", True),
    ("numbers", "1,00,000 rupees", "100.000 Rupien", True),
    ("numbers", "٢٠ يوما", "20 days", True),
    ("numbers", "٢٠ يوما", "30 days", False),
    ("numbers", "५ किताबें और २५ कलम", "5 books and 25 pens", True),
    ("numbers", "２０２３年", "2023", True),
    ("numbers", "COVID-19 is here", "Corona ist da", True),
    ("numbers", "Call 110 now", "Jetzt anrufen", False),
    # numbers: fractions, thousands and scales
    ("numbers", "3.7 percent", "7,3 Prozent", False),
    ("numbers", "3.7 percent", "3,7 Prozent", True),
    ("numbers", "900 euros", "900.000 Euro", False),
    ("numbers", "1,000 dogs", "1 Hund", False),
    ("numbers", "3,500 dogs", "3,5 Hunde", False),
    ("numbers", "5 million people", "5 Menschen", False),
    ("numbers", "5 people", "5 Millionen Menschen", False),
    ("numbers", "5 million people", "fünf Millionen Menschen", True),
    ("numbers", "5 billion dollars", "5 Milliarden Dollar", True),
    ("numbers", "5 billion dollars", "5 Billionen Dollar", False),
    ("numbers", "3 to 5 million", "3.000.000 bis 5.000.000", True),
    ("numbers", "3 to 5 million", "3.000 bis 5.000.000", False),
    ("numbers", "a $5m deal", "ein Vertrag über 5 Mio. Dollar", True),
    ("numbers", "5m long", "5 Meter lang", True),
    ("numbers", "1.2万人", "12,000 people", True),
    ("numbers", "1.2万人", "1.2 people", False),
    ("numbers", "900 אלף", "900,000", True),
    ("numbers", "二百五十只狗", "250 dogs", True),
    ("numbers", "二百五十只狗", "205 dogs", False),
    ("numbers", "二〇二〇年", "2020", True),
    ("numbers", "一亿二千万人", "120 million people", True),
    ("numbers", "50% of it", "die Hälfte davon", True),
    ("numbers", "40% of it", "die Hälfte davon", False),
    # numbers: years, dates, times
    ("numbers", "20 dollars", "2020 Dollar", False),
    ("numbers", "90 years", "1990 Jahre", False),
    ("numbers", "the 90s", "die 1990er", True),
    ("numbers", "in the '90s", "in den 1990ern", True),
    ("numbers", "the 2020-21 season", "die Saison 2020/2021", True),
    ("numbers", "on 12/05/2020", "am 5.12.2020", True),
    ("numbers", "on 12/05/2020", "am 6.12.2020", False),
    ("numbers", "on 12/05/20", "am 12. Mai 2020", True),
    ("numbers", "on May 12", "am 12.5.", True),
    ("numbers", "at 5:30", "um 5.30", True),
    ("numbers", "at 5:30", "um 6.30", False),
    ("numbers", "won 3-2", "gewann 3:2", True),
    # numbers: signs, words, lost and added
    ("numbers", "It is -5 degrees.", "Es sind 5 Grad.", False),
    ("numbers", "It is 5 degrees.", "Es sind -5 Grad.", False),
    ("numbers", "It is -5 degrees.", "Es sind minus 5 Grad.", True),
    ("numbers", "It is -5 degrees.", "Es sind − 5 Grad.", True),
    ("numbers", "Take 2 pills", "Nehmen Sie Pillen", False),
    ("numbers", "Take pills", "Nehmen Sie 5 Pillen", False),
    ("numbers", "Take 1 pill", "Nehmen Sie eine Pille", True),
    ("numbers", "fifty dogs", "50 Hunde", True),
    ("numbers", "fifty dogs", "15 Hunde", False),
    ("numbers", "a hundred dogs", "100 Hunde", True),
    ("numbers", "250 dogs", "zweihundertfünfzig Hunde", True),
    ("numbers", "twenty-five dogs", "25 Hunde", True),
    ("numbers", "10 years", "ein Jahrzehnt", True),
    ("numbers", "half a cup", "1/2 Tasse", True),
    ("numbers", "World War II", "der 2. Weltkrieg", True),
    ("numbers", "a 3rd party app", "eine Drittanbieter-App", True),
    ("numbers", "ראיתי שלושה כלבים", "I saw 3 dogs", True),
    ("numbers", "Он видел 3 собак", "He saw dogs", False),
    ("numbers", "I saw 3 dogs", "Он видел трёх собак", True),
    # addresses
    ("urls", "See https://example.org/a?b=1.", "Siehe https://example.org/a?b=1.", True),
    ("urls", "See https://example.org/a?b=1.", "Siehe https://example.org/a?b=2.", False),
    ("urls", "See (www.example.org)", "Siehe „www.example.org“", True),
    ("urls", "请看 https://example.org/a。", "See https://example.org/a.", True),
    ("urls", "Write to a.b@example.org!", "Schreiben Sie an a.b@example.org.", True),
    ("urls", "Write to a.b@example.org!", "Schreiben Sie an a.b@beispiel.org.", False),
    ("urls", "Write to us", "Schreiben Sie an x@example.org", False),
    ("urls", "Hi @tom", "Hallo @tom", True),
    # language, where it is given
    ("language:de", EN, LONG, True),
    ("language:de", EN, EN, False),
    ("language:de", EN, "Dies ist a sentence that is not in the language that we want to have.", False),
    ("language:de", EN, "Это предложение написано по-русски.", False),
    ("language:de", "OK.", "OK.", True),
    ("language:de", "Tom Hanks met Emma Stone", "Tom Hanks traf Emma Stone", True),
    ("language:ru", EN, "Это предложение написано по-русски (WHO).", True),
    ("language:ru", EN, EN, False),
    ("language:zh", EN, "这是一个句子。", True),
    ("language:zh", EN, "This is 一 sentence.", False),
    ("language:ja", EN, "これは文です。", True),
    ("language:ja", EN, "이것은 문장입니다.", False),
    ("language:ar", EN, "هذه جملة ليست قصيرة.", True),
    ("language:he", EN, "هذه جملة ليست قصيرة.", False),
    ("language:hi", EN, "यह एक वाक्य है।", True),
    # length
    ("length", EN, LONG, True),
    ("length", EN, "", False),
    ("length", EN, "Das ist ein", False),
    ("length", EN, LONG * 5, False),
    ("length", "Yes.", "Selbstverst", True),
    ("length", EN, "这是一个既不太短也不太长的句子，到此结束。", True),
    ("length", "这是一个既不太短也不太长的句子，到此结束。", EN, True),
    # repetition
    ("repetition", EN, LONG, True),
    ("repetition", EN, "Das ist ein Satz ein Satz ein Satz ein Satz.", False),
    ("repetition", EN, "Das ist sehr, sehr, sehr lang.", True),
    ("repetition", EN, "Das das das das das das ist lang.", False),
    ("repetition", "no no no no no", "nein nein nein nein nein", True),
    ("repetition", EN, "这是一个句子这是一个句子这是一个句子这是一个句子这是一个句子这是一个句子。", False),
    ("repetition", EN, "Это очень очень очень очень очень длинное предложение.", False),
    ("repetition", EN, "Das ist ein Telegrammmmmmmmmmmmmmmmmmmmmmmmm und kein Brief.", False),
    ("repetition", EN, "Der Donaudampfschifffahrtsgesellschaftskapitän grüßt.", True),
    ("repetition", "Table 1 ..........", "Tabelle 1 ..........", True),
    # copies
    ("not-copied", "We saw two birds.", "Wir sahen zwei Vögel.", True),
    ("not-copied", "We saw two birds.", "we saw  two BIRDS.", False),
    ("not-copied", "New York", "New York", True),
    ("not-copied", "Tom Hanks, Emma Stone", "Tom Hanks, Emma Watson", True),
    ("not-copied", EN, EN.replace("sentence", "Satz"), False),
    ("not-copied", "狗在公园里跑得很快很快。", "狗在公园里跑得很快很快。", False),
    ("not-copied", "Мы видели двух птиц.", "Мы видели двух птиц.", False),
    ("not-copied", "1 2 3 4 5", "1 2 3 4 5", True),
]


def severity_of(guard: str, source: str, candidate: str) -> float:
    name, _, language = guard.partition(":")
    ready = get_guard(name, **({"to": language} if language else {}))
    (severity,) = ready.faults(ListTexts(source, [candidate]))
    return severity


@pytest.mark.parametrize(("guard", "source", "candidate", "kept"), CASES)
def test_a_guard_knows_right_from_wrong(guard: str, source: str, candidate: str, kept: bool) -> None:
    severity = severity_of(guard, source, candidate)
    assert 0 <= severity <= 1
    assert (severity == 0) is kept


def test_the_table_has_right_and_wrong_cases_of_every_guard() -> None:
    assert len(CASES) >= 60
    shown = {(guard.partition(":")[0], kept) for guard, _, _, kept in CASES}
    assert shown == {(name, kept) for name in guard_names() if name != "glossary" for kept in (True, False)}


@pytest.mark.parametrize("guard", [name for name in guard_names() if name != "glossary"])
def test_a_guard_says_the_same_of_a_candidate_whatever_its_place(guard: str) -> None:
    texts = [LONG, EN, "", "Hallo %d <b> 12 https://example.org", LONG + " Ja.", LONG.replace("Satz", "Text")]
    ready = get_guard(guard)
    severities = ready.faults(ListTexts(EN, texts))
    assert list(ready.faults(ListTexts(EN, texts[::-1]))) == list(severities)[::-1]


@pytest.mark.parametrize(
    ("texts", "broken"),
    [
        ([LONG, LONG.replace("Satz", "Text"), EN], [2]),
        ([EN.replace("sentence", "phrase"), EN.replace("sentence", "line"), LONG], [0, 1]),
        (["Это предложение.", "Это фраза.", "This is it."], [2]),
        ([EN, EN.replace("sentence", "phrase")], []),
    ],
)
def test_without_a_language_given_it_is_that_of_the_candidates_that_are_not_in_the_source_s(
    texts: list[str], broken: list[int]
) -> None:
    severities = get_guard("language").faults(ListTexts(EN, texts))
    assert [place for place, severity in enumerate(severities) if severity] == broken


def test_a_candidate_much_shorter_than_the_others_or_cut_off_is_odd() -> None:
    texts = [LONG, LONG.replace("Satz", "Text"), LONG[:-1] + " nun.", LONG[:50], LONG[:30], LONG * 2 + LONG]
    severities = get_guard("length").faults(ListTexts(EN, texts))
    assert [place for place, severity in enumerate(severities) if severity] == [3, 4, 5]


def test_a_package_may_judge_the_language() -> None:
    pytest.importorskip("py3langid", reason="the extra `language` is not installed")
    guard = get_guard("language", to="de", by="py3langid")
    dutch = "Dit is een zin die niet kort en ook niet lang is, en hij eindigt hier."
    severities = guard.faults(ListTexts(EN, [LONG, dutch, EN, "OK."]))
    assert [bool(severity) for severity in severities] == [False, True, True, False]
    assert guard.settings() == {"to": "de", "by": "py3langid"}
