"""XLM-R-XL."""

from __future__ import annotations

from typing import Any

from pear.encoders.xlmr import XLMREncoder


class XLMRXLEncoder(XLMREncoder):
    """The encoder of the larger released PEAR."""

    @staticmethod
    def classes() -> tuple[Any, Any, Any]:
        from transformers import AutoTokenizer, XLMRobertaXLConfig, XLMRobertaXLModel

        return AutoTokenizer, XLMRobertaXLModel, XLMRobertaXLConfig
