"""The console script `rsocket-broker`: the commands of `main`, and first what cannot wait until they are imported."""

import sys

from broker import exit_status
from broker.commands.hangup import outlive_hangups

if sys.argv[1:2] == ["serve"]:  # the other commands may end with their terminal
    outlive_hangups()

try:
    from broker.commands.main import main  # takes time
except KeyboardInterrupt:
    sys.exit(exit_status.INTERRUPTED)

__all__ = ["main"]
