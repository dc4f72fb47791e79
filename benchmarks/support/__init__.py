"""What the benchmarks and the tests share: peers, data, random checkpoints, replays. No benchmark is imported here."""
