"""Protocols that posts come and go by, each a Source and a Sink (`transport`)."""
