"""One RSocket connection in the client's role, without I/O: streams, credit, fragments, leases, resumption.

Compiled with the broker's core. Time comes in, bytes go out; `client_sdk.io.connection` is its hands.
"""
