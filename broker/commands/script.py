"""The console script `rsocket-broker`: the commands of `main`, and first what cannot wait until they are imported."""

import sys

from broker.commands.hangup import HANGUPS

if sys.argv[1:2] == ["serve"]:  # the other commands may end with their terminal
    HANGUPS.heed()

from broker.commands.main import main  # takes time

__all__ = ["main"]
