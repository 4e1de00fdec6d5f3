"""What people and systems start: the commands of `rsocket-broker`, and the processes behind them. May know all."""

from typing import Final

WORDS: Final = "words"  # of a context: all behind the program
