"""The console script `rsocket-broker`: the commands of `main`, first what cannot wait until they are imported, and last
what may happen while Python ends."""

import sys

try:
    import signal

    from broker.commands.hangup import AtOnce, outlive_hangups

    if sys.argv[1:2] == ["serve"]:  # the other commands may end with their terminal
        outlive_hangups()

    with AtOnce():
        from broker.commands.main import main as commands  # takes time
except KeyboardInterrupt:
    from broker import exit_status  # late: it imports as well

    sys.exit(exit_status.INTERRUPTED)


def main() -> None:
    """Runs a command to its end."""
    try:
        commands()
    finally:  # Python needs some time more: Ctrl-C ends that as C does, at once and without a traceback
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
