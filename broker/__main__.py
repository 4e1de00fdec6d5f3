"""`python -m broker` is `rsocket-broker serve`."""

from broker.commands.hangup import outlive_hangups

outlive_hangups()

from broker.commands.serve import serve  # noqa: E402  # takes time

serve(prog_name="python -m broker", help_option_names=["-h", "--help"])
