"""`python -m broker` is `rsocket-broker serve`."""

from broker.hangup import HANGUPS

HANGUPS.heed()

from broker.cli import serve  # noqa: E402  # takes time

serve(prog_name="python -m broker")
