"""Encoders under the names of pear-mt 1.1.1, for scripts that import them."""

from __future__ import annotations

from pear.encoders.xlmr import XLMREncoder
from pear.encoders.xlmr_xl import XLMRXLEncoder

str2encoder = {"XLM-RoBERTa": XLMREncoder, "XLM-RoBERTa-XL": XLMRXLEncoder, "InfoXLM": XLMREncoder}

__all__ = ["XLMREncoder", "XLMRXLEncoder", "str2encoder"]
