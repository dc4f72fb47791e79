"""mbr-evaluate as a user meets it."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from candidates.common.errors import MbrError
from mbr.cli.evaluate.command import command
from tests.conftest import Run, write_jsonl
from tests.mbr.evaluate.made import ALL, FAST, REFERENCES, SOURCES, SYSTEMS

pytestmark = [pytest.mark.one_world, pytest.mark.usefixtures("files")]


def test_a_transcript(warm: Run, tmp_path: Path) -> None:
    for path in tmp_path.glob("*.txt"):
        path.write_bytes(path.read_bytes() * 4)  # of five segments no test could say that they differ
    result = warm("mbr-evaluate", *ALL, *FAST, "--baseline", "poor")
    assert result.returncode == 0
    scores, legend, checks, signatures = result.stdout.split("\n\n")
    head, line, *rows = scores.split("\n")
    assert head.split() == ["system", "chrf", "bleu", "ter", "↓"]
    assert set(line) == {"-"}
    assert [row.split()[0] for row in rows] == ["good", "mid", "poor"]
    assert rows[2].startswith("poor (baseline)  ")
    assert [row.count("†") for row in rows] == [3, 3, 0]
    assert legend.split("\n") == [
        "± half of the 95 % interval (100 bootstrap draws, seed 1)",
        "† differs from poor: p < .05 by paired bootstrap and approximate randomisation (100 trials)",
        "↓ lower is better",
    ]
    ratios = {name: len("".join(texts)) / len("".join(REFERENCES)) for name, texts in SYSTEMS.items()}
    assert checks.split("\n")[0] == "outputs to look at  length ratio  empty  copied  numbers  odd length  cut off"
    assert [row.split() for row in checks.split("\n")[2:]] == [
        ["good", f"{ratios['good']:.3f}", "0", "0", "0", "0", "0"],
        ["mid", f"{ratios['middle']:.3f}", "0", "0", "0", "0", "0"],
        ["poor", f"{ratios['poor']:.3f}", "4", "4", "4", "0", "0"],
    ]
    assert [row.split()[0] for row in signatures.strip().split("\n")] == ["chrf", "bleu", "ter"]
    assert "bleu  BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in signatures
    assert result.stderr.startswith("mbr-evaluate: few segments (20): intervals and tests mean little\n")
    assert "3 systems, 20 segments, 3 judges in" in result.stderr


def test_json_tells_all(warm: Run, tmp_path: Path) -> None:
    result = warm("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "--baseline", "mid", "--format", "json", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["systems"], found["segments"], found["baseline"]) == (["poor", "good", "mid"], 5, "mid")
    (judge,) = found["judges"]
    assert (judge["name"], judge["family"], judge["lower_is_better"]) == ("chrf", "lexical", False)
    assert judge["identity"].startswith("chrF2|nrefs:1|")
    from sacrebleu.metrics import CHRF

    good = judge["scores"]["good"]
    assert good["score"] == CHRF().corpus_score(SYSTEMS["good"], [REFERENCES]).score
    assert good["low"] <= good["score"] <= good["high"]
    assert good["difference"] == good["score"] - judge["scores"]["mid"]["score"]
    assert 0 < good["p_bootstrap"] <= 1
    assert 0 < good["p_randomisation"] <= 1
    assert judge["scores"]["mid"]["p_bootstrap"] == judge["scores"]["mid"]["p_randomisation"] == 1
    poor = found["checks"]["poor"]
    assert (poor["empty"], poor["copied"], poor["numbers"]) == ([5], [4], [2])


def test_files_are_written_whole_and_not_overwritten(warm: Run, tmp_path: Path) -> None:
    words = ("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "bleu", "-o", "out.tsv", "--format", "tsv", "--segments")
    result = warm(*words, "seg.jsonl")
    assert (result.returncode, result.stdout) == (0, "")
    header, *rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert header[:5] == ["system", "judge", "score", "low", "high"]
    assert [row[:2] for row in rows] == [[s, j] for j in ("chrf", "bleu") for s in ("good", "mid", "poor")]
    segments = [json.loads(line) for line in (tmp_path / "seg.jsonl").read_text().splitlines()]
    assert len(segments) == 15
    assert segments[-3] == {"segment": 5, "system": "poor", "scores": {"chrf": 0.0, "bleu": 0.0}, "flags": ["empty"]}
    again = warm(*words, "seg.jsonl")
    assert (again.returncode, "out.tsv exists; give --force" in again.stderr) == (2, True)
    assert warm(*words, "seg.jsonl", "--force").returncode == 0
    same = warm(*words, "out.tsv", "--force")
    assert (same.returncode, "name the same file" in same.stderr) == (2, True)
    clash = warm(*words, "out.tsv.run.yaml", "--force")
    assert (clash.returncode, "file beside --output that holds the options" in clash.stderr) == (2, True)
    assert "# 0 segments failed" in (tmp_path / "out.tsv.run.yaml").read_text()
    assert warm("mbr-evaluate", "--config", "out.tsv.run.yaml", "--force", "--seed", "2").returncode == 0


def test_a_link_is_written_through_and_a_pipe_is_refused_before_the_work(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.txt").symlink_to("folder/out.txt")
    os.mkfifo(tmp_path / "pipe")
    words = ("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "--force", "-o")
    assert warm(*words, "link.txt").returncode == 0
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "folder" / "out.txt").read_text().startswith("system ")
    refused = warm(*words, "pipe")
    assert (refused.returncode, "pipe is a pipe, which is never replaced" in refused.stderr) == (2, True)
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "pipe.run.yaml").exists()
    refused = warm(*words, "/dev/stdout")
    assert (refused.returncode, "leave out -o" in refused.stderr) == (2, True)


def test_a_config_is_weaker_than_flags(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "references: ref.txt\nsystems: [good.txt, poor.txt]\njudge: [bleu, chrf]\nformat: json\nbootstrap: 0\n"
    )
    both = json.loads(warm("mbr-evaluate", "--config", "run.yaml").stdout)
    assert [judge["name"] for judge in both["judges"]] == ["bleu", "chrf"]
    one = json.loads(warm("mbr-evaluate", "--config", "run.yaml", "--judge", "chrf").stdout)
    assert [judge["name"] for judge in one["judges"]] == ["chrf"]
    assert one["systems"] == ["good", "poor"]


def test_systems_come_from_folders_jsonl_gzip_and_standard_input(warm: Run, tmp_path: Path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    (tmp_path / "poor.txt").rename(folder / "poor.txt")
    (folder / "refA.txt").write_bytes((tmp_path / "ref.txt").read_bytes())
    write_jsonl(tmp_path / "best.jsonl", [{"id": n, "text": text or None} for n, text in enumerate(SYSTEMS["good"])])
    (tmp_path / "zipped.txt.gz").write_bytes(gzip.compress((tmp_path / "middle.txt").read_bytes()))
    result = warm(
        *("mbr-evaluate", "--references", "ref.txt", *FAST, "--judge", "chrf", "--format", "json"),
        *("--systems", "outputs", "best.jsonl", "--systems", "zipped.txt.gz", "new=-", "top=ref.txt"),
        stdin="".join(text + "\n" for text in SYSTEMS["middle"]),
    )
    assert result.returncode == 0, result.stderr
    scores = {name: score["score"] for name, score in json.loads(result.stdout)["judges"][0]["scores"].items()}
    assert list(scores) == ["poor", "best", "zipped", "new", "top"]
    assert scores["zipped"] == scores["new"]
    assert scores["top"] == 100
    assert "refA holds a reference and is not judged as a system" in result.stderr


def test_a_byte_order_mark_counts_as_for_sacrebleu_and_gives_a_warning(warm: Run, tmp_path: Path) -> None:
    """So do WMT23's published scores: one of its files begins with a mark."""
    from sacrebleu.metrics import CHRF

    marked = "\ufeff" + (tmp_path / "middle.txt").read_text(encoding="utf-8")
    (tmp_path / "marked.txt").write_text(marked, encoding="utf-8")
    words = ("mbr-evaluate", "--references", "ref.txt", *FAST, "--judge", "chrf", "--format", "json")
    result = warm(*words, "--systems", "marked.txt")
    assert "marked.txt begins with a byte order mark" in result.stderr
    expected = CHRF().corpus_score(marked.split("\n")[:-1], [REFERENCES]).score
    assert json.loads(result.stdout)["judges"][0]["scores"]["marked"]["score"] == expected


def test_lines_end_at_newlines_only(warm: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_bytes("one\r two\u2028three\x0b\nfour\n".encode())
    result = warm("mbr-evaluate", "--references", "a.txt", "--systems", "b.txt", "--judge", "ter", "--format", "json")
    found = json.loads(result.stdout)
    assert (found["segments"], found["judges"][0]["scores"]["b"]["score"]) == (2, 0)


def test_cells_of_the_utility_that_chose_are_marked(warm: Run, tmp_path: Path) -> None:
    lists = [{"source": s, "candidates": list(texts)} for s, *texts in zip(SOURCES, *SYSTEMS.values(), strict=True)]
    lists[-1]["candidates"].remove("")
    write_jsonl(tmp_path / "lists.jsonl", lists)
    decoded = warm("mbr-decode", "--utility", "chrf", "--candidates", "lists.jsonl", "-o", "best.txt")
    assert decoded.returncode == 0, decoded.stderr
    words = ("mbr-evaluate", "--references", "ref.txt", "--systems", "best.txt", "good.txt", *FAST, "--judge", "chrf")
    result = warm(*words)
    assert "* chosen by a utility of the judge's family: overrated\n" in result.stdout
    rows = {line.split()[0]: line for line in result.stdout.split("\n\n")[0].splitlines()}
    assert rows["best"].endswith("*")
    assert not rows["good"].endswith("*")
    found = json.loads(warm(*words, "--format", "json").stdout)
    assert found["chosen_by"] == {"best": ["chrf"]}
    assert found["judges"][0]["scores"]["best"]["same_family"] is True


def test_a_first_stage_flatters_too(warm: Run, tmp_path: Path) -> None:
    head = "# MBR|utility:chrf|strategy:full|prefilter:cometkiwi:30|prefilter-model:x|version:0.1.0\n"
    (tmp_path / "good.txt.run.yaml").write_text(head)
    words = ("mbr-evaluate", *ALL, *FAST, "--format", "json", "--no-cache", "--judge")
    found = json.loads(warm(*words, "chrf").stdout)
    assert found["chosen_by"] == {"good": ["chrf", "cometkiwi"]}
    alone = warm(*words, "comet=./nowhere")
    assert "warning: good (chrf after cometkiwi): chosen by a learned utility" in alone.stderr
    (tmp_path / "good.txt.run.yaml").write_text(
        head.replace("utility:chrf", "utility:pear").replace("cometkiwi", "bleu")
    )
    scores = json.loads(warm(*words, "chrf").stdout)["judges"][0]["scores"]
    assert {name: score["same_family"] for name, score in scores.items()} == {"poor": False, "good": True, "mid": False}
    (tmp_path / "good.txt.run.yaml").write_text(head.replace("cometkiwi", "logprob"))
    assert "learned" not in warm(*words, "comet=./nowhere").stderr


def test_a_judge_whose_model_is_missing_costs_only_its_own_column(warm: Run, tmp_path: Path) -> None:
    result = warm("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "comet=./nowhere", "--offline")
    assert result.returncode == 4
    rows = [line.split() for line in result.stdout.split("\n\n")[0].splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows] == [("good", "failed"), ("mid", "failed"), ("poor", "failed")]
    assert float(rows[0][1]) > 80
    assert re.search("\ncomet failed: .*nowhere", result.stdout)
    assert result.stderr.count("nowhere") == 1
    assert "3 systems, 5 segments, 2 judges (1 failed) in" in result.stderr
    assert warm("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "comet=./nowhere", "-o", "out.txt").returncode == 4
    signature, failed = (tmp_path / "out.txt.run.yaml").read_text().splitlines()[:2]
    assert re.match("# chrF2.* comet failed: .*nowhere", signature)
    assert failed == "# 5 segments failed"
    tsv = warm("mbr-evaluate", *ALL, *FAST, "--judge", "chrf", "comet=./nowhere", "--format", "tsv").stdout
    assert sum("nowhere" in line for line in tsv.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--references", "ref.txt"], 2, "no outputs to judge; give --systems"),
        (["--systems", "good.txt"], 2, "need references; .*cometkiwi, .*metricx-qe"),
        (["--systems", "good.txt", "--judge", "comet"], 2, "comet needs references .--references FILE.; .*cometkiwi"),
        (["--systems", "good.txt", "--judge", "cometkiwi"], 2, "cometkiwi needs the sources .--sources FILE."),
        (["--systems", "good.txt", "--references", "ref.txt", "--judge", "blue"], 2, "judge 'blue' is unknown"),
        (["--systems", "good.txt", "--references", "ref.txt", "--baseline", "x"], 2, "baseline 'x' is not among"),
        (["--systems", "good.txt", "a/good.txt", "--references", "ref.txt"], 2, "two systems are called 'good'"),
        (["--systems", "good.txt", "--references", "ref.txt", "--tokenize", "x"], 2, "tokenizer 'x' is unknown"),
        (["--systems", "-", "--references", "-"], 2, "only one of"),
        (["--systems", "good.txt", "--references", "ref.txt", "--seed", "-1"], 2, "--seed -1 is negative"),
        (["--systems", "", "--references", "ref.txt"], 2, "--systems is empty"),
        (["--systems", "good.txt", "--references", " "], 2, "--references is empty"),
        (["--systems", "a\tb=good.txt", "--references", "ref.txt"], 2, r"name 'a\\tb' of a system holds a control"),
        (["--systems", "none.txt", "--references", "ref.txt"], 3, "none.txt: cannot be read"),
        (["--systems", "a=none.txt", "--references", "ref.txt"], 3, "none.txt: cannot be read"),
        (["--systems", "empty", "--references", "ref.txt"], 3, r"empty: no \*.txt in this folder"),
        (["--systems", "x=empty", "--references", "ref.txt"], 2, "is a folder, whose files have names of their own"),
        (["--systems", "good.txt", "--references", "empty"], 3, "empty is a folder; expected a file"),
        (
            ["--systems", "good.txt", "short.txt", "--references", "ref.txt"],
            3,
            "short.txt has 3 lines, but ref.txt has 5: line 4 is the first that is missing",
        ),
        (["--systems", "bad.txt", "--references", "ref.txt"], 3, "bad.txt, line 2, byte 2: 0xff is not valid UTF-8"),
        (["--systems", "bad.jsonl", "--references", "ref.txt"], 3, "bad.jsonl, line 1: expected an object like"),
        (["--systems", "void.txt", "--references", "void.txt"], 3, "no segments to judge"),
    ],
)
def test_a_wrong_request_ends_with_a_clear_word(
    words: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "good.txt").write_text("x\n")
    (tmp_path / "short.txt").write_text("a\nb\nc\n")
    (tmp_path / "bad.txt").write_bytes(b"a\nb\xff\n")
    (tmp_path / "bad.jsonl").write_text('{"source": "a"}\n')
    (tmp_path / "void.txt").write_text("")
    try:
        found, said = command([*words, *FAST]), ""
    except MbrError as exc:
        found, said = exc.exit_code, str(exc)
    said += capsys.readouterr().err  # a judge that cannot be opened is found out when its turn comes
    assert found == code
    assert re.search(message, said), said


def test_errors_are_one_line_on_stderr(warm: Run) -> None:
    result = warm("mbr-evaluate", "--systems", "none.txt", "--references", "ref.txt")
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr == "mbr-evaluate: error: none.txt: cannot be read: No such file or directory\n"


def test_a_second_run_takes_judgements_from_the_cache(
    warm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    words = ("mbr-evaluate", *ALL, *FAST, "--judge", "chrf")
    first = warm(*words)
    file = tmp_path / "cache" / "judgements.sqlite"
    before = file.read_bytes()
    assert warm(*words).stdout == first.stdout == warm(*words, "--no-cache").stdout
    assert file.read_bytes() == before
    file.write_bytes(b"nonsense" * 999)
    broken = warm(*words)
    assert (broken.returncode, broken.stdout) == (0, first.stdout)
    assert "is broken" in broken.stderr


def test_ter_is_no_default_for_documents(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(("ein Wort nach dem anderen " * 70 + "\n") * 3)
    words = ("mbr-evaluate", "--references", "long.txt", "--systems", "a=long.txt", *FAST, "--format", "json")
    result = warm(*words)
    assert [judge["name"] for judge in json.loads(result.stdout)["judges"]] == ["chrf", "bleu"]
    assert "ter is left out: segments of 350 words take it seconds each" in result.stderr
    asked = warm(*words, "--judge", "ter")
    assert [judge["name"] for judge in json.loads(asked.stdout)["judges"]] == ["ter"]


def test_words_are_not_counted_by_spaces_where_there_are_none(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "zh.txt").write_text("狗在公园里跑得很快。\n" * 3, encoding="utf-8")
    words = ("mbr-evaluate", "--references", "zh.txt", "--systems", "a=zh.txt", *FAST, "--format", "json")
    result = warm(*words)
    assert [judge["name"] for judge in json.loads(result.stdout)["judges"]] == ["chrf", "bleu"]
    assert "ter is left out: it counts words by spaces, and the references look Chinese" in result.stderr
    assert "warning: bleu: the references look Chinese; count words with --tokenize zh\n" in result.stderr
    asked = warm(*words, "--judge", "bleu", "ter", "chrf++", "--tokenize", "zh").stderr
    assert "warning: bleu" not in asked
    assert "warning: chrf++, ter: the references look Chinese, and words are counted by spaces here" in asked


def test_few_draws_give_a_warning(warm: Run) -> None:
    words = ("mbr-evaluate", "--references", "ref.txt", "--systems", "good.txt", "--judge", "chrf", "--bootstrap")
    assert "few draws (--bootstrap 99): intervals mean little" in warm(*words, 99).stderr
    for draws in (0, 100):
        assert "few draws" not in warm(*words, draws).stderr
    assert "1 system, 5 segments, 1 judge in" in warm(*words, 0).stderr


def test_the_list_of_judges(warm: Run) -> None:
    result = warm("mbr-evaluate", "--list-judges")
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names[:5] == ["name", "chrf", "chrf++", "bleu", "ter"]
    assert {"comet", "cometkiwi", "xcomet", "xcomet-qe", "metricx", "metricx-qe", "bleurt"} <= set(names)
