"""The Samwise gateway as a process, and what may happen to it: kill -9, receivers that are away, a full disk."""
