"""Distilled MQM: a chat model marks the errors of translations, for `pear-train` to learn from."""
