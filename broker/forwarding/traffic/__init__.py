"""Traffic counters: flows, and the log of single requests, for event files and metrics."""
