"""What operators see of a broker: plain values (`schemas`), and the functions that read them off a core (`queries`)."""
