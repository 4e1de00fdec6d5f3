"""Staying connected: which broker, when again, and in which state."""
