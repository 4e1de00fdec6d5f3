"""What people and systems start: the commands of `rsocket-broker`, and the processes behind them. May know all."""
