"""Brokers among brokers, without I/O: who they are, how to reach them, which routes they have."""
