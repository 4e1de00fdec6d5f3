"""The mistakes of docs/errors.md, "What goes wrong first": each as a program makes it, by the words of its row.

A module for each part of that section.
"""

from tests.client_sdk.public.mistakes import calls, connecting, contracts, credentials, loops, services
from tests.client_sdk.public.mistakes.world import MISTAKES, World, echo_service

__all__ = ["MISTAKES", "World", "calls", "connecting", "contracts", "credentials", "echo_service", "loops", "services"]
