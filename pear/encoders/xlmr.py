"""XLM-R and InfoXLM."""

from __future__ import annotations

from typing import Any

from pear.encoders.base import PretrainedEncoder


class XLMREncoder(PretrainedEncoder):
    """The encoder of the smaller released PEAR."""

    @staticmethod
    def classes() -> tuple[Any, Any, Any]:
        from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

        return AutoTokenizer, XLMRobertaModel, XLMRobertaConfig
