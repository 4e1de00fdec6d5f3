"""`rsocket-broker completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "rsocket-broker"
VARIABLE = "_RSOCKET_BROKER_COMPLETE"  # by which click is asked what fits


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options, and names of services and contexts.

    \b
    In ~/.bashrc:      eval "$(rsocket-broker completion bash)"
    In ~/.zshrc:       eval "$(rsocket-broker completion zsh)"
    In config.fish:    rsocket-broker completion fish | source

    That of zsh stands behind compinit.
    """
    found = get_completion_class(shell)
    assert found is not None  # click knows all of SHELLS
    click.echo(found(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source())
