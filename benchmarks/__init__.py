"""Speed, quality and parity against the peers. Not part of the wheel; run as `python -m benchmarks.NAME`."""
