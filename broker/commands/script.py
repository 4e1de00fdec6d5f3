"""The console script `rsocket-broker`: the commands of `main`, and first what cannot wait until they are imported."""

import sys

try:
    from broker.commands.hangup import outlive_hangups

    if sys.argv[1:2] == ["serve"]:  # the other commands may end with their terminal
        outlive_hangups()

    from broker.commands.main import main  # takes time
except KeyboardInterrupt:
    from broker import exit_status  # late: it imports as well

    sys.exit(exit_status.INTERRUPTED)

__all__ = ["main"]
