"""What the records of a broker tell of its past: its runs, the events of its log, its table at a moment."""
