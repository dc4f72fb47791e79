"""The head of an SVG picture: its size, a ground, and colours that follow the reader's light or dark mode.

Pictures are drawn in the colours of light mode. A style sheet in each of them replaces those of `DARK` where the reader
prefers dark: in a browser, on the documentation site and in README; other programs show the light ones.

    >>> picture_head(200, 100).splitlines()[0]
    '<svg class="picture" xmlns="http://www.w3.org/2000/svg" width="200" height="100" viewBox="0 0 200 100" font-family="sans-serif">'
"""  # noqa: E501

from __future__ import annotations

INK, QUIET, GRID, PAPER, GOOD = "#1b2733", "#51606e", "#d9dfe5", "#ffffff", "#0b6b43"
DARK = {
    INK: "#dfe5ec",
    QUIET: "#9aa7b5",
    GRID: "#3a4450",
    GOOD: "#5fd39d",
    "#000000": "#ffffff",
    "#0072b2": "#5b8ff9",
    "#8a97a3": "#6d7985",
    "#1f6feb": "#6aa5f8",
    "#c9510c": "#f08a4b",
    "#0b7a4b": "#4fc08d",
}
# Of cells with white text on them, or, where they let the ground through, with ink: the same in both modes.
SHADES = ("#0a6ebd", "#b85000")
_GROUND = "#1e2129"


def picture_head(width: float, height: float) -> str:
    """The first lines of a picture; close it with `</svg>`."""
    return (
        f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="ground" width="100%" height="100%" fill="{PAPER}"/>'
    )


def _style() -> str:
    rules = [f".picture .ground{{fill:{_GROUND}}}"]
    for light, dark in DARK.items():
        rules += [f'.picture [{part}="{light}"]{{{part}:{dark}}}' for part in ("fill", "stroke")]
    return f"@media (prefers-color-scheme:dark){{{''.join(rules)}}}"
