"""A comparison as one HTML page: self-contained, opens from a file, fetches nothing.

Tables, charts and sentences are made here and need no script; the script (`page.js`) shows the segments and matrices
that the reader selects. Texts from the input are escaped here, and enter as text nodes there.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files

from mbr.compare.comparison import Comparison
from mbr.compare.page.charts import regret_chart, scatter, settings_legend
from mbr.compare.page.data import page_data, script_json
from mbr.compare.page.tables import agreement_tables, failures, score_table
from mbr.compare.study import titles
from mbr.compare.summary import duration, summary

TITLE = "Utilities compared"
FLIPPED = " (lower is better, so the scale is upside down)"
# Nothing may be fetched, whatever the texts contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(done: Comparison, title: str | None = None) -> str:
    """The whole page."""
    here = files("mbr.compare.page")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    heading = escape(title or TITLE)
    sections = [
        failures(done),
        _section("summary", "In plain words", _list(summary(done))),
        _section("table", "Scores and costs", score_table(done)),
        _scatters(done),
        _section("disagreements", "Where they disagree", _DISAGREEMENTS),
        _section("matrix", "One segment's matrix", _MATRIX) if done.studies else "",
        _section("agreement", "How far they agree", agreement_tables(done)),
        _regrets(done),
        _section("made", "How this was made", _made(done)),
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="color-scheme" content="light dark">
<title>{heading}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{heading}</h1>
<p>{escape(_subtitle(done))}</p>
<button type="button" id="theme" hidden>dark or light</button>
</header>
<main>
{"".join(sections)}</main>
<script type="application/json" id="data">{script_json(page_data(done))}</script>
<script>
{script}</script>
</body>
</html>
"""


def _subtitle(done: Comparison) -> str:
    candidates = sum(len(item) for item in done.lists) / len(done.lists)
    words = f"{len(done.lists)} segments, {candidates:.3g} distinct candidates per segment on average"
    made = done.origin
    if "model" in made:
        words += f", by {made['model']} ({made.get('method', '')}, nbest {made.get('nbest', '')})"
        if made.get("cpu_seconds"):
            words += f", made in {duration(made['cpu_seconds'])} of CPU time"
    elif "lists" in made:
        words += f", from {made['lists']}"
    return words + "."


def _section(name: str, title: str, content: str) -> str:
    head = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{content}</section>\n'


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _figure(chart: str, caption: str) -> str:
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def _scatters(done: Comparison) -> str:
    charts = [
        _figure(chart, judge.label + (FLIPPED if judge.lower_is_better else ""))
        for judge in done.evaluation.judges
        if judge.error is None and (chart := scatter(done, judge))
    ]
    if not charts:
        return ""
    words = (
        "<p>Left is cheap, up is good. Bars are the 95 % interval of each setting alone: settings whose bars overlap "
        "may still differ beyond chance, see the table. Lines are rows without a cost of their own.</p>"
    )
    drawn = settings_legend(done) + f'<div class="charts">{"".join(charts)}</div>'
    return _section("cost", "Quality against cost", words + drawn)


def _regrets(done: Comparison) -> str:
    charts = [
        _figure(chart, title)
        for study, title in zip(done.studies, titles(done.studies), strict=True)
        if (chart := regret_chart(study))
    ]
    if not charts:
        return ""
    lists = max(len(study.portraits) for study in done.studies)
    words = (
        f"<p>Strategies replayed on the complete matrices of {lists} segments: regret of their choices, as a share of "
        "best minus mean, against the number of pairs they score. Points below 0.01 % are drawn at 0.01 %. With this "
        "number of segments only the trend is reliable.</p>"
    )
    return _section("regret", "Regret against passes", words + f'<div class="charts">{"".join(charts)}</div>')


def _made(done: Comparison) -> str:
    rows = [(row.label, row.signature) for row in done.rows if row.signature]
    judges = [(f"judge {judge.label}", judge.identity) for judge in done.evaluation.judges if judge.identity]
    origin = [("candidates", "|".join(f"{key}:{value}" for key, value in done.origin.items() if key != "cpu_seconds"))]
    items = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(str(text))}</code></dd>" for name, text in (*origin, *rows, *judges)
    )
    return f"<p>Signatures name everything that may change a choice or a score.</p><dl>{items}</dl>"


_DISAGREEMENTS = """
<p>Segments where two rows chose different texts. The margin is the larger regret of one row's choice under the other,
as a share of best minus mean.</p>
<form class="controls" id="controls">
<label>A <select id="a"></select></label>
<label>B <select id="b"></select></label>
<label>margin at least <output id="margin-value">0 %</output>
<input type="range" id="margin" min="0" max="200" step="5" value="0"></label>
<label>text contains <input type="search" id="search"></label>
<label>order <select id="order"></select></label>
</form>
<p id="matches" role="status" aria-live="polite"></p>
<details id="differences"><summary>differences between the settings of A and B</summary><table></table></details>
<div id="cards"></div>
<button type="button" id="more" hidden>show more</button>
<noscript><p>This part needs JavaScript.</p></noscript>
"""

_MATRIX = """
<p>Left: the utility of the row's candidate against the column's. Right: how far the two orders of a pair deviate from
antisymmetry or symmetry. Both are sorted by score, best first. Point at a cell, or focus the matrix and use the arrow
keys.</p>
<form class="controls">
<label>utility <select id="study"></select></label>
<label>segment <select id="portrait"></select></label>
</form>
<p id="portrait-source"></p>
<div class="maps">
<figure><canvas id="utility-map" tabindex="0" role="img"></canvas>
<figcaption>utility <span class="scale"></span></figcaption></figure>
<figure><canvas id="asymmetry-map" tabindex="0" role="img"></canvas>
<figcaption id="asymmetry-words"></figcaption></figure>
</div>
<p id="cell" role="status" aria-live="polite"></p>
<div class="wide" tabindex="0" role="region" aria-label="candidates"><table id="candidates"></table></div>
<noscript><p>This part needs JavaScript.</p></noscript>
"""
