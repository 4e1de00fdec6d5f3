"""Bytes and values of RSocket and of the RSocket Broker Specification, shared by broker, client and event readers."""
