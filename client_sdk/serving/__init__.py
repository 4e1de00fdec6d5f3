"""Programs that are services: several connections for one service, and a main function that drains before it ends.

Docs: docs/sdk/services.md.
"""
