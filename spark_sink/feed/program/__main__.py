"""`python -m spark_sink.feed.program` is a feed that a broker starts, and tells on standard input what to do."""

import sys

from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.program import run

if __name__ == "__main__":
    assignment = Assignment.read(sys.stdin.buffer)
    sys.exit(run(assignment, stops_at_eof=True) if assignment is not None else 0)
