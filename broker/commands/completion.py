"""`rsocket-broker completion`: what a shell needs to complete commands, options and names, and what it is told.

Decides what is said otherwise than by click: of `--name=value` the value is completed, helps are whole, and bash, for
which `:` and `=` end words, is asked for its line.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "rsocket-broker"
VARIABLE = "_RSOCKET_BROKER_COMPLETE"  # by which click is asked what fits
MAX_HELP = 120  # characters beside a command; a terminal cuts what it cannot show
ENDS_OF_WORDS = ":="  # of COMP_WORDBREAKS, those that URLs and tags have


class Completing(ShellComplete):
    """What all shells are told."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """As click's, with whole helps and, behind `--name=`, with that name."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("--"):
            return [CompletionItem(f"{option}={item.value}", item.type, item.help) for item in found]
        if any((item.help or "").endswith("...") for item in found):
            self._complete_helps(args, found)
        return found

    def _complete_helps(self, args: list[str], items: list[CompletionItem[str]]) -> None:
        context = click.Context(self.cli, info_name=self.prog_name, resilient_parsing=True)
        for word in args:
            group = context.command
            command = group.get_command(context, word) if isinstance(group, click.Group) else None
            if command is not None:
                context = click.Context(command, context, word, resilient_parsing=True)
        for item in items:
            group = context.command
            command = group.get_command(context, item.value) if isinstance(group, click.Group) else None
            if command is not None:
                item.help = command.get_short_help_str(MAX_HELP)


class Bash(Completing, BashComplete):
    """Is asked for its line, since it would cut `http://host:7070` into five words."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' completion type value
    for completion in $(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" %(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        self._kept_n = 1 + max(incomplete.rfind(end) for end in ENDS_OF_WORDS)
        return words, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Without what bash keeps: it takes the answer for the last of its own words."""
        return f"{item.type},{item.value[self._kept_n :]}"


class Zsh(Completing, ZshComplete):
    """As click has it."""


class Fish(Completing, FishComplete):
    """Is told helps that have commas."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def add_shells() -> None:
    """Has click ask these, in place of its own."""
    for each in (Bash, Zsh, Fish):
        add_completion_class(each)


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
    assert found is not None  # there is one for each of SHELLS
    click.echo(found(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source())
