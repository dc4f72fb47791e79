"""XLM-R and InfoXLM."""

from __future__ import annotations

from typing import Any

from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

from pear.encoders.base import PretrainedEncoder


class XLMREncoder(PretrainedEncoder):
    """The encoder of the smaller released PEAR."""

    @staticmethod
    def classes() -> tuple[Any, Any, Any]:
        return AutoTokenizer, XLMRobertaModel, XLMRobertaConfig
