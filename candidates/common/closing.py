"""Objects that hold a resource which must be released: a model, a file, a connection."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Base class for use with `with`, which calls `close` at the end, also after an error."""

    def close(self) -> None:
        """Release the resource; without one there is nothing to do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
