"""Attacks on a broker with real sockets, one script each: what stands in docs/threat-model.md and nowhere else."""
