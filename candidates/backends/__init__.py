"""What makes candidates: CTranslate2, transformers, OpenAI-compatible servers."""
