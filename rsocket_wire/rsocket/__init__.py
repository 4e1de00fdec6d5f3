"""One RSocket connection without I/O: frames, metadata, the state of a connection. Knows nothing of routing."""
