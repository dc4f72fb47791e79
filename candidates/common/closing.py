"""Things that hold something which must be given back: a model, a file, a connection."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """`with` closes it at the end, whatever happened."""

    def close(self) -> None:
        """Give back what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
