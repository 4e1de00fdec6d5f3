"""Requests between brokers: where they leave and come in, what stands in front of them, and second tries."""
