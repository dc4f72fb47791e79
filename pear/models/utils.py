"""What `MetricModel.predict` returns."""

from __future__ import annotations

from typing import Any


class Prediction(dict[str, Any]):
    """A dictionary whose values are attributes too: `prediction["scores"]` or `prediction.scores`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as exc:
            raise AttributeError(name) from exc
