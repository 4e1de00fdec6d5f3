"""Exit statuses: what each command of `rsocket-broker` tells a script by its end, one table for all of them.

Decides numbers and what they mean. Which failure is which stands with the commands.
"""

import os
import sys
from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2  # as click has it for what it finds itself
NO_ANSWER: Final = 3
REFUSED: Final = 4
HANDLER_FAILED: Final = 5
TOO_LATE: Final = 6
LOST: Final = 7
INVALID: Final = 8
NOT_INSTALLED: Final = 9
DRAINED: Final = 10
UNWELL: Final = 11
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells say it
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE

MEANINGS: Final = {
    DONE: "done",
    FAILED: "failed, for any other reason",
    USAGE: "a mistake in the command line, the configuration, a file or folder",
    NO_ANSWER: "nobody answers there",
    REFUSED: "refused by the broker or gateway: no-route, over-limit, denied …",
    HANDLER_FAILED: "the service's handler failed",
    TOO_LATE: "no answer in time",
    LOST: "the service or the connection was lost; the request may have been done",
    INVALID: "an invalid request: bad-address, no-handler, too-large …",
    NOT_INSTALLED: "a part is not installed; the text says how to install it",
    DRAINED: "`ctl status --check`: the broker is drained",
    UNWELL: "`ctl status --check`: something is wrong at the broker",
    INTERRUPTED: "interrupted by Ctrl-C",
    PIPE_CLOSED: "whoever read the output has gone",
}
EPILOG: Final = "\b\nExit status:\n" + "\n".join(
    f"  {status:<3}  {meaning.replace('`', '')}" for status, meaning in MEANINGS.items()
)


def drop_output() -> None:
    """Nobody reads it any more; Python would complain once more when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
