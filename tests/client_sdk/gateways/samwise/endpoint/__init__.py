"""The ZeroMQ side of the gateway."""
