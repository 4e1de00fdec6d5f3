"""Frames in the log: which are chosen, and what their lines show."""
