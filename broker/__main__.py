"""`python -m broker` is `rsocket-broker serve`."""

from broker.cli import serve

serve(prog_name="python -m broker")
