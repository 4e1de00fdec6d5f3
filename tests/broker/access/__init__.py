"""Tests of broker.access."""
