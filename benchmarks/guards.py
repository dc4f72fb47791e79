"""How often do guards flag a good translation, what do they cost, and what do they save?

    python -m benchmarks.guards
    python -m benchmarks.guards --lp he-en

Proves that each guard of `--require production` flags under 2 % of the best translations, that all of them together
take under 1 ms per list of 100 candidates, and that decoding costs less where guards drop candidates. Of each segment
of WMT23 (../shared/data or $MBR_DATA) the outputs of all systems are a list; the best is the one with the best human
score (MQM), where several are equally good the mean over them. Flags of the worst output are what a guard is for, so
their rate stands beside. Time is CPU time of one core on 100-best lists of the bundled translator, mean per list, the
fastest of several runs. Three kinds of lists: Tatoeba sentences, for which the translator is made; these with
placeholders, tags, numbers and an address added to all, which no guard can pass over; and sources of WMT23, where the
translator loops and invents numbers in some lists, and faults take time. The exit code is 1 where a bound is MISSED.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from benchmarks.support.headlines import headline
from benchmarks.support.places import TATOEBA, WMT23
from benchmarks.support.tatoeba import shuffled
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from mbr.guards import PRODUCTION, Guards, ListTexts, get_guard
from mbr.opening import Models, open_decoder
from mbr.recipe import GuardSpec, Recipe

MOST_FALSE_ALARMS = 0.02
MOST_SECONDS = 0.001
MOST_OF_DECODING = 0.5  # half of the candidates have a quarter of the pairs
LONGEST_SOURCE = 250  # characters: the bundled translator is made for sentences
FEWEST_CANDIDATES = 90  # distinct ones, of 100
ADDED = " <b>{name}</b> %d 1,234.5 https://example.org/a"
DECODED = 24  # candidates of a list that is decoded with and without guards; every other one breaks a rule
DECODED_LISTS = 8


@dataclass
class Rates:
    """Of one guard: the share of the best and of the worst outputs that it flags, and the number of all."""

    best: float = 0.0
    worst: float = 0.0
    outputs: int = 0


@dataclass(frozen=True)
class Rated:
    """A segment: its source, the outputs of all systems, and the human score of each that has one, by place."""

    source: str
    texts: list[str]
    scores: dict[int, float] = field(default_factory=dict)

    def at(self, extreme: float) -> list[int]:
        """The places of outputs with this score."""
        return [place for place, score in self.scores.items() if score == extreme]


def rated_segments(pair: str) -> list[Rated]:
    def lines(name: str) -> list[str]:
        return (WMT23 / name).read_text(encoding="utf-8").split("\n")[:-1]

    scores = defaultdict[str, list[str]](list)
    for line in lines(f"human-scores/{pair}.mqm.seg.score"):
        system, score = line.split("\t")
        scores[system].append(score)
    systems = sorted(name for name in scores if "synthetic" not in name)
    outputs = [lines(f"system-outputs/{pair}/{name}.txt") for name in systems]
    segments = []
    for place, source in enumerate(lines(f"sources/{pair}.txt")):
        human = {k: float(scores[name][place]) for k, name in enumerate(systems) if scores[name][place] != "None"}
        if human:
            segments.append(Rated(source, [texts[place] for texts in outputs], human))
    return segments


def alarm_rates(segments: Sequence[Rated]) -> dict[str, Rates]:
    rates = {name: Rates() for name in PRODUCTION}
    guards = {name: get_guard(name) for name in PRODUCTION}
    for segment in segments:
        listed = ListTexts(segment.source, segment.texts)
        best, worst = segment.at(max(segment.scores.values())), segment.at(min(segment.scores.values()))
        for name, guard in guards.items():
            broken = [severity > 0 for severity in guard.faults(listed)]
            rates[name].best += sum(broken[place] for place in best) / len(best) / len(segments)
            rates[name].worst += sum(broken[place] for place in worst) / len(worst) / len(segments)
            rates[name].outputs += sum(broken)
    return rates


def lists_of(sources: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """100-best lists of some sources."""
    with open_generator(Settings(nbest=100), device="cpu") as generator:
        made = [item for item in generator.generate(sources) if isinstance(item, CandidateList)]
    return [(item.source, item.texts) for item in made if len(item) >= FEWEST_CANDIDATES]


def seconds_per_list(guards: Guards, lists: Sequence[tuple[str, Sequence[str]]], repeats: int = 7) -> float:
    fastest = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        for source, texts in lists:
            guards.judge(source, texts)
        fastest = min(fastest, (time.process_time() - began) / len(lists))
    return fastest


def decoding_seconds(lists: Sequence[tuple[str, Sequence[str]]]) -> tuple[float, float]:
    """CPU seconds per list of decoding lists where half of the candidates break a guard: without it, and with it."""
    items = [
        CandidateList.of(f"{source} {{name}}", [f"{text} {{name}}" if k % 2 else text for k, text in enumerate(texts)])
        for source, texts in ((source, texts[:DECODED]) for source, texts in lists[:DECODED_LISTS])
    ]
    seconds = []
    with Models({"device": "cpu", "threads": 1}) as models:
        for guards in ((), (GuardSpec("placeholders"),)):
            recipe = Recipe("pear", {"model": "en-de"}, strategy="half", guards=guards)
            decoder = open_decoder(recipe, models=models)
            decoder.decide(items[:1])
            began = time.process_time()
            decoder.decide(items)
            seconds.append((time.process_time() - began) / len(items))
    return seconds[0], seconds[1]


def held(words: str, value: float, most: float) -> bool:
    """One line on a bound, and whether it holds."""
    headline(f"{words} ({'under' if value < most else 'MISSED:'} {most:g})")
    return value < most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lp", choices=("en-de", "he-en"), default="en-de")
    parser.add_argument("--lists", type=int, default=30, help="lists of 100 candidates to measure time on")
    options = parser.parse_args()
    segments = rated_segments(options.lp)
    rates = alarm_rates(segments)
    lists = lists_of(shuffled(TATOEBA, "test")[: options.lists])
    news = [segment.source for segment in rated_segments("en-de") if len(segment.source) <= LONGEST_SOURCE]
    others = lists_of(news[:: max(len(news) // options.lists, 1)][: options.lists])
    print(f"{options.lp}: {len(segments)} segments, {sum(len(segment.texts) for segment in segments)} outputs")
    print(f"{'guard':14}{'best output':>12}{'worst output':>14}{'all outputs':>13}{'ms per list':>13}")
    for name, rate in rates.items():
        own = seconds_per_list(Guards({name: get_guard(name)}), lists)
        print(f"{name:14}{100 * rate.best:10.2f} %{100 * rate.worst:12.2f} %{rate.outputs:13,}{1000 * own:13.3f}")
    whole = Guards({name: get_guard(name) for name in PRODUCTION})
    plain = seconds_per_list(whole, lists)
    busy = seconds_per_list(whole, [(source + ADDED, [text + ADDED for text in texts]) for source, texts in lists])
    single = [1000 * seconds_per_list(whole, [item]) for item in others]
    highest = max(rates, key=lambda name: rates[name].best)
    free, guarded = decoding_seconds(lists)
    most = 1000 * MOST_SECONDS
    bounds = [
        held(
            f"false alarms on the best output: at most {100 * rates[highest].best:.2f} % ({highest})",
            100 * rates[highest].best,
            100 * MOST_FALSE_ALARMS,
        ),
        held(f"all guards, lists of 100: {1000 * plain:.2f} ms per list", 1000 * plain, most),
        held(f"the same with things to check in all candidates: {1000 * busy:.2f} ms", 1000 * busy, most),
        held(
            f"the same on WMT23: {mean(single):.2f} ms (mean), {median(single):.2f} (median), {max(single):.2f} (the "
            "list with the most faults)",
            mean(single),
            most,
        ),
        held(
            f"decoding {DECODED} candidates of which half break a guard: {1000 * guarded:.0f} ms of CPU per list with "
            f"it, {1000 * free:.0f} without, a share of {guarded / free:.2f}",
            guarded / free,
            MOST_OF_DECODING,
        ),
    ]
    return int(not all(bounds))


if __name__ == "__main__":
    raise SystemExit(main())
