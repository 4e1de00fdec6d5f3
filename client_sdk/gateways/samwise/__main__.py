"""`python -m client_sdk.gateways.samwise` is a gateway that a broker starts, and tells on standard input what to do."""

import sys

from client_sdk.gateways.samwise.assignment import Assignment
from client_sdk.gateways.samwise.program import run

if __name__ == "__main__":
    assignment = Assignment.read(sys.stdin.buffer)
    sys.exit(run(assignment, stops_at_eof=True) if assignment is not None else 0)
