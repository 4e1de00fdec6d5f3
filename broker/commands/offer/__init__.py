"""`rsocket-broker offer`: a service at a terminal."""
