"""Spans of OpenTelemetry through its API, where that is installed and set up; otherwise nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Record = Callable[[Mapping[str, Any]], None]


class Spans:
    """Makes a span per request, as a child of the caller's."""

    def __init__(self) -> None:
        self._tracer: Any = None
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            return
        self._tracer = trace.get_tracer("mbr-serve")
        self._parent = propagate.extract

    @contextmanager
    def span(self, name: str, headers: Mapping[str, str]) -> Iterator[Record]:
        """A span around a request; the function that is yielded records its attributes, which hold no texts."""
        if self._tracer is None:
            yield lambda attributes: None
            return
        with self._tracer.start_as_current_span(name, context=self._parent(headers)) as span:
            yield span.set_attributes
