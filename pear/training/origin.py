"""Where the first weights of a training run come from, as a value; `start` makes them. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

from candidates.common.errors import UsageError


@dataclass(frozen=True)
class Origin:
    """Where the first weights come from: exactly one of model, encoder and translators, or none of them."""

    model: str | None = None
    encoder: str | None = None
    # one: its encoder; two, there and back: both whole, under new layers
    translators: tuple[str, ...] | None = None
    # from scratch: 4 layers of 256 with 4 heads, 8,000 pieces; `layers` also keeps the first ones of a translator's
    # encoder, or is the number of new ones over two translators
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    vocabulary: int | None = None
    positions: int = 512
    # how a hub is reached
    revision: str | None = None
    cache_dir: str | None = None
    offline: bool = False
    # of a fresh head; None for the sizes of the papers, and for RESUME's own architecture (unified)
    hidden_sizes: tuple[int, ...] | None = None
    architecture: str | None = None
    dropout: float = 0.1

    def __post_init__(self) -> None:
        named = [name for name in ("model", "encoder", "translators") if getattr(self, name) is not None]
        if len(named) > 1:
            raise UsageError(f"a run begins with one of {' and '.join(named)}, not with both")
        if self.translators is not None and not 1 <= len(self.translators) <= 2:
            raise UsageError(f"{len(self.translators)} translators; expected one, or two: there and back")
        if self.architecture == "comet" and len(self.translators or ()) == 2:
            raise UsageError(
                "architecture comet encodes each text alone, two translators read them together; leave one out"
            )
        for name in ("layers", "hidden", "heads", "vocabulary", "positions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} {value} is not a positive number")
        sizes = [name for name in ("hidden", "heads", "vocabulary", "layers") if getattr(self, name) is not None]
        if named and [name for name in sizes if (named[0], name) != ("translators", "layers")]:
            raise UsageError(f"{sizes[0]} is for a model from scratch; the {named[0].rstrip('s')} has its own")
        if (self.hidden or 256) % (self.heads or 4):
            raise UsageError(f"hidden size {self.hidden or 256} is no multiple of {self.heads or 4} heads")
