"""Decisions behind HTTP: a scheduler that knows no web library, and an application around it.

`scheduler` owns pool and models in one thread; `app` translates HTTP to its requests and back; `limits` and `protocol`
guard it; `server` starts, drains and reloads it. The command is `mbr-serve` (docs/serve.md).
"""
