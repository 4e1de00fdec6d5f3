"""The service side: handlers for requests, and what a program tells the broker about them.

    engine ── Responder ──► responder ──► routes ──► handlers ──► the program's functions
                               │                        └─ limits, threads, codecs
                               └─ health: refuses while the service is out  advertisement ──► ROUTE_SETUP ──► broker
    serving, beside it: several connections for one service; a program that runs until it is told to stop

Docs: docs/sdk/services.md.
"""
