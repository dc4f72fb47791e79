"""What the service does, as numbers for Prometheus (docs/serve.md lists them)."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from mbr.serve.watch import Watch

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Watch):
    """The numbers of one service, in a registry of their own."""

    def __init__(self, log: Callable[[str], None] = lambda message: None) -> None:
        self._log = log
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = self._counter("mbr_requests", "Requests by route and status code", "route", "code")
        self._queue_requests = Gauge("mbr_queue_requests", "Requests under way", registry=self._registry)
        self._queue_tokens = Gauge("mbr_queue_tokens", "Estimated tokens under way", registry=self._registry)
        self._queue_seconds = self._histogram("mbr_queue_seconds", "Seconds that requests waited to begin")
        self._decode_seconds = self._histogram("mbr_decode_seconds", "Seconds from begin to decision", "recipe")
        self._steps = self._histogram("mbr_step_seconds", "Seconds of one call of the utility")
        self._batch_tokens = self._counter("mbr_batch_tokens", "Tokens that models computed, without padding")
        self._padding = self._counter("mbr_padding_tokens", "Tokens that models computed for padding")
        self._passes = self._counter("mbr_passes", "Pairs scored for decisions")
        self._dropped = self._counter("mbr_dropped", "Requests without a decision, by reason", "reason")
        self._fallbacks = self._counter("mbr_fallbacks", "Decisions for which the first candidate stands in")
        self._partial = self._counter("mbr_partial_answers", "Decisions made at their deadline")
        self._joined = self._counter("mbr_joined_requests", "Requests that waited for the answer of an equal one")
        self._hits = self._counter("mbr_cache_hits", "Scores that were in the cache")
        self._misses = self._counter("mbr_cache_misses", "Scores that were not in the cache")
        self._errors = self._counter("mbr_errors", "Unexpected exceptions")

    def exposition(self) -> bytes:
        """All of them in the text format of Prometheus."""
        return generate_latest(self._registry)

    def request(self, route: str, code: int) -> None:
        self._requests.labels(route, str(code)).inc()

    def queue(self, jobs: int, tokens: int) -> None:
        self._queue_requests.set(jobs)
        self._queue_tokens.set(tokens)

    def joined(self) -> None:
        self._joined.inc()

    def dropped(self, reason: str) -> None:
        self._dropped.labels(reason).inc()

    def began(self, seconds: float) -> None:
        self._queue_seconds.observe(seconds)

    def step(self, pairs: int, tokens: int, padding: int, seconds: float) -> None:
        self._steps.observe(seconds)
        self._batch_tokens.inc(tokens)
        self._padding.inc(padding)

    def ended(self, recipe: str, seconds: float, passes: int) -> None:
        self._decode_seconds.labels(recipe).observe(seconds)
        self._passes.inc(passes)

    def partial(self) -> None:
        self._partial.inc()

    def fallback(self) -> None:
        self._fallbacks.inc()

    def cache(self, hits: int, misses: int) -> None:
        self._hits.inc(hits)
        self._misses.inc(misses)

    def error(self, what: str) -> None:
        self._errors.inc()
        self._log(what)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(name, words, labels, registry=self._registry)

    def _histogram(self, name: str, words: str, *labels: str) -> Histogram:
        return Histogram(name, words, labels, buckets=SECONDS, registry=self._registry)
