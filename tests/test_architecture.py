"""The shape of the project: imports point one way, commands start light, the wheel holds what it should."""

from __future__ import annotations

import ast
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from tests.conftest import ROOT
from tests.support.imports import Graph, cycles, import_graph, imports_of, python_files

PACKAGES = ("candidates", "pear", "mbr")
# Each package may import those before it. Inside a package, a line may import the lines above it; the rooms of one line
# do not import each other. A room is a module or a folder. Imports inside functions count as any other.
LAYERS: dict[str, list[tuple[str, ...]]] = {
    "candidates": [
        ("common",),
        ("command", "lists", "settings"),
        ("formats", "chat"),
        ("backends",),
        ("generation",),
        ("kept", "options", "training"),
        ("cli",),
    ],
    "pear": [
        ("shipped", "ties", "model", "data"),
        ("runtime", "labelling"),
        ("serialize", "checkpoint"),
        ("engine", "encoders"),
        ("scorer",),
        ("single", "resume_metric", "models"),
        ("inference",),
        ("mbr", "training"),
        ("cli", "commands"),
    ],
    "mbr": [
        ("alignment", "drawing", "glossary", "notebook", "signature", "weights"),
        ("matrix",),
        ("decide", "metrics"),
        ("utilities",),
        ("terms", "guards"),
        ("strategies", "cache", "prefilter"),
        ("pool", "recipe", "compared"),
        ("evidence",),
        ("pipeline",),
        ("opening", "estimate"),
        ("api",),
        ("evaluate",),
        ("compare", "metaeval", "serve", "ray"),
        ("tune",),
        ("cli.common",),
        ("cli",),
        ("cli.decode", "cli.compare", "cli.evaluate", "cli.metaeval", "cli.tune", "cli.serve", "cli.doctor"),
    ],
}

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60


def room(module: str) -> str | None:
    """The room of a module, the smallest there is; None where it stands in none."""
    package, _, inside = module.partition(".")
    rooms = [name for layer in LAYERS[package] for name in layer if f"{inside}.".startswith(f"{name}.")]
    return max(rooms, key=len, default=None)


def floor(module: str) -> int:
    own, layers = room(module), LAYERS[module.split(".")[0]]
    return next(number for number, layer in enumerate(layers) if own in layer)


def wrong_import(module: str, imported: str) -> str | None:
    """One sentence on an import that points the wrong way: which, why, and where things belong."""
    package, other = module.split(".")[0], imported.split(".")[0]
    if package != other:
        if PACKAGES.index(other) < PACKAGES.index(package):
            return None
        return (
            f"{module} imports {imported}, but {package} comes before {other} ({' <- '.join(PACKAGES)}): move what it "
            f"needs down into {package}, or {module} up into {other}"
        )
    if imported == package:
        return f"{module} imports {package} itself, which is for users: import the module that defines the name"
    if room(module) == room(imported) or floor(imported) < floor(module):
        return None
    why = "stands above" if floor(imported) > floor(module) else "stands beside"
    return (
        f"{module} imports {imported}, but the room {room(imported)!r} {why} {room(module)!r} in {package}: move what "
        f"it needs into {room(module)!r} or below, or {module} into a room above {room(imported)!r}"
    )


def place_of(module: str, graph: Graph) -> str:
    """Where a module that stands in no room belongs, by what it imports and what imports it."""
    package = module.split(".")[0]
    ours = {name: room(name) for name in graph if name.startswith(f"{package}.") and room(name)}
    imported = [ours[name] for name in graph[module] & ours.keys()]
    importing = [ours[name] for name in ours if module in graph[name]]
    below = max(imported, key=lambda name: floor(f"{package}.{name}"), default="nothing")
    above = min(importing, key=lambda name: floor(f"{package}.{name}"), default="nothing")
    return (
        f"{module} is in no room of LAYERS (tests/test_architecture.py): by what it imports, it goes above {below!r}, "
        f"by what imports it, below {above!r}; add it there, or move it into a room"
    )


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(ROOT, PACKAGES)


def test_every_module_stands_in_a_room(graph: Graph) -> None:
    homeless = [module for module in graph if "." in module and room(module) is None]
    assert not homeless, "\n".join(place_of(module, graph) for module in homeless)


def test_imports_point_one_way(graph: Graph) -> None:
    arrows = [(module, imported) for module in graph if "." in module and room(module) for imported in graph[module]]
    arrows = [(module, imported) for module, imported in arrows if "." not in imported or room(imported)]
    wrong = [wrong_import(*arrow) for arrow in sorted(arrows)]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_no_package_imports_tests_or_benchmarks() -> None:
    for file in (file for package in PACKAGES for file in python_files(ROOT, package)):
        foreign = {name for name in imports_of(ROOT, file) if name.split(".")[0] in ("tests", "benchmarks")}
        assert not foreign, f"{file.relative_to(ROOT)} imports {foreign}, which are not in the wheel: move them down"


def test_no_modules_import_each_other_in_a_circle(graph: Graph) -> None:
    circles = cycles(graph)
    assert not circles, "\n".join(
        f"{', '.join(group)} import each other (inside functions counts): move what they share into a module below"
        for group in circles
    )


@pytest.mark.parametrize(
    ("module", "imported", "message"),
    [
        ("mbr.strategies.race", "mbr.pool", "'pool' stands above 'strategies' in mbr: move what it needs into"),
        ("mbr.compare.rows", "mbr.metaeval.values", "'metaeval' stands beside 'compare'"),
        ("candidates.lists", "pear.model", "candidates comes before pear (candidates <- pear <- mbr)"),
        ("mbr.pool", "mbr", "mbr itself, which is for users"),
        ("mbr.cli.decode.run", "mbr.cli.compare.tables", "'cli.compare' stands beside 'cli.decode'"),
        ("mbr.pool", "mbr.strategies.base", None),
        ("mbr.pool", "pear.engine", None),
        ("mbr.cli.decode.run", "mbr.cli.common.layout", None),
        ("pear.data.pairs", "pear.data.record", None),
    ],
)
def test_a_wrong_import_is_explained_in_a_sentence(module: str, imported: str, message: str | None) -> None:
    sentence = wrong_import(module, imported)
    assert (sentence is None) if message is None else (sentence is not None and message in sentence)


def test_a_new_module_is_shown_its_place() -> None:
    graph = {"mbr.new": {"mbr.pool", "candidates.lists"}, "mbr.pool": set(), "mbr.api": {"mbr.new"}}
    assert "it goes above 'pool', by what imports it, below 'api'" in place_of("mbr.new", graph)


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_imports_in_functions_count_and_those_for_type_checkers_do_not(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "import json\nif TYPE_CHECKING:\n    import hidden\n"
        "def f():\n    from two import three, four\n    class C:\n        import five.six\n"
    )
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "three.py").touch()
    assert imports_of(tmp_path, tmp_path / "one.py") == {"json", "two.three", "two", "five.six"}


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks", "tests"])
def test_modules_and_functions_are_short(package: str) -> None:
    long = []
    for file in python_files(ROOT, package):
        name, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES:
            long.append(f"{name} has {text.count(chr(10))} lines, over {MOST_LINES}: split it by subject")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    long.append(f"{name}: {node.name} has {lines} lines, over {MOST_LINES_OF_A_FUNCTION}: split it")
    assert not long, "\n".join(long)


HEAVY = ("torch", "transformers", "ctranslate2", "comet", "sacrebleu", "huggingface_hub")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command: str) -> None:
    program = (
        "import sys\nfrom candidates.command.launch import start\nsys.argv = ['x', '--help']\n"
        f"try:\n    start({command!r})\nfinally:\n"
        f"    sys.stderr.write(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "quick start:" in result.stdout
    assert "exit codes:" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_answers_within_half_a_second(command: str) -> None:
    """In CPU time: other tests run at the same time."""
    script = Path(sys.executable).with_name(command)
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([script, "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(times) < 0.5


def test_wheel_holds_the_three_packages_and_nothing_else(tmp_path: Path) -> None:
    for name in ("candidates", "pear", "mbr", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "work"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        "out",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").glob("mbr_decode-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == {"candidates", "pear", "mbr"}
    assert {"candidates/py.typed", "pear/py.typed", "mbr/py.typed"} <= set(names)
    bundled = {f"candidates/bundled/en-de/{name}" for name in ("model.bin", "sentencepiece.model", "README.md")}
    bundled |= {f"mbr/bundled/en-de/{name}" for name in ("words.npz", "README.md")}
    assert bundled <= set(names)
    assert {f"mbr/serve/page/{name}" for name in ("index.html", "page.css", "page.js")} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
