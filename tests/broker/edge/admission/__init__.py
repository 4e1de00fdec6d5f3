"""Tests of what verifies credentials."""
