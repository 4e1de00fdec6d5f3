"""`rsocket-broker bench`: how fast a running broker answers from here."""
