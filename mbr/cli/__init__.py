"""Commands: parse, call, print; nothing else."""
