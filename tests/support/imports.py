"""Which module imports which, read from the source: at the top of a module or inside a function, both count.

Imports for type checkers only (`if TYPE_CHECKING:`) do not run, and do not count. `from package import name` is an
import of the module `package.name` where there is one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]


def python_files(root: Path, package: str) -> list[Path]:
    """The modules of a package, without what benchmarks keep in `work`, such as environments of peers."""
    work = root / "benchmarks" / "work"
    return sorted(file for file in (root / package).rglob("*.py") if work not in file.parents)


def module_name(root: Path, file: Path) -> str:
    """`mbr/cache/__init__.py` is mbr.cache."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(root: Path, file: Path) -> set[str]:
    """The modules that a file imports; relative imports are an error."""
    imported: set[str] = set()
    for node in _running(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.relative_to(root)}, line {node.lineno}: write imports from the package down"
            imported |= {_target(root, str(node.module), alias.name) for alias in node.names}
    return imported


def import_graph(root: Path, packages: tuple[str, ...]) -> dict[str, set[str]]:
    """Each module of the packages, and the modules of the packages that it imports."""
    files = {module_name(root, file): file for package in packages for file in python_files(root, package)}
    return {name: imports_of(root, file) & files.keys() for name, file in files.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other in a circle, smallest name first (Tarjan's components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == order[name]:
            place = stack.index(name)
            if len(stack) - place > 1:
                groups.append(sorted(stack[place:]))
            del stack[place:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return sorted(groups)


def _target(root: Path, module: str, name: str) -> str:
    path = root / Path(*module.split("."), name)
    return f"{module}.{name}" if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file() else module


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _running(child)
