"""The command `rsocket-broker`: which sub-commands there are, in one line each, and how any of them ends.

Imports a command when it is asked for: help and completion wait for nothing else, a broker does not carry pyarrow about
(69 MiB), and not every installation has it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from broker import VERSION, exit_status
from broker.commands import WORDS
from broker.commands.completion import add_shells
from broker.commands.hangup import AtOnce
from broker.config.extras import lack_of_events
from rsocket_wire.files import system_reason

PROGRAM: Final = "rsocket-broker"


class Elsewhere(NamedTuple):
    """A command in a module of its own, where it has its own name with _ for -."""

    module: str
    help: str  # one line of at most 80 columns, with the name before it
    needs_events: bool = False  # the extra


COMMANDS: Final = {
    "access": Elsewhere("broker.commands.access.command", "Tell what roles allow, and suggest roles."),
    "bench": Elsewhere("broker.commands.bench.command", "Measure latency and throughput through a broker."),
    "call": Elsewhere("broker.commands.call", "Send one request and print what comes back."),
    "check": Elsewhere("broker.commands.configuration", "Check a configuration; print all options."),
    "completion": Elsewhere("broker.commands.completion", "Print what makes a shell complete commands."),
    "context": Elsewhere("broker.commands.context", "Name brokers, and say which one commands ask."),
    "ctl": Elsewhere("admin_api.ctl.commands", "Inspect and steer a running broker."),
    "demo": Elsewhere("broker.commands.demo.command", "Run broker, services, traffic and a report.", needs_events=True),
    "feed": Elsewhere("broker.commands.feed", "Announce, serve and mirror files (Sarracenia v03)."),
    "offer": Elsewhere("broker.commands.offer.command", "Be a service that shows requests and answers."),
    "password": Elsewhere("broker.commands.configuration", "Make the line of a user for the file auth.users."),
    "pipeline": Elsewhere("spark_sink.cli", "Turn event files into tables.", needs_events=True),
    "report": Elsewhere("spark_sink.cli", "Report what the tables tell of traffic and routes.", needs_events=True),
    "samwise": Elsewhere("broker.commands.samwise", "Run or ask a gateway for messages by ZeroMQ."),
    "serve": Elsewhere("broker.commands.serve", "Run a broker until SIGTERM or SIGINT."),
    "shard-plan": Elsewhere("broker.commands.shard_plan", "Count the keys that move when routes join or leave."),
    "simulate": Elsewhere("spark_sink.what_if.command", "Replay requests with another balancer.", needs_events=True),
    "table": Elsewhere("spark_sink.time_travel.command", "Show the routing table at any time.", needs_events=True),
    "token": Elsewhere("admin_api.access.command", "Make, list and revoke tokens for the REST API."),
}


class NotInstalled(click.Command):
    """Stands in for a command that needs an extra, where that is not installed."""

    def __init__(self, name: str, lack: str) -> None:
        """`lack`: what is missing, and the line that installs it."""
        super().__init__(name, short_help=lack, add_help_option=False)
        self._lack = lack

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes whatever was asked: the answer is the same."""
        return []

    def invoke(self, ctx: click.Context) -> None:
        """One sentence and the exit status of a part that is not installed."""
        click.echo(f"{ctx.command_path} {self._lack}", err=True)
        sys.exit(exit_status.NOT_INSTALLED)


class Commands(click.Group):
    """The commands, each in its module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        if found.needs_events and (lack := lack_of_events()):
            return NotInstalled(cmd_name, lack)
        with AtOnce():
            module = importlib.import_module(found.module)
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """What click proposes for a name that is none it takes from commands that are loaded: these are not."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(name, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without their modules, which take seconds to import."""
        rows = [
            (name, lack_of_events() if found.needs_events and lack_of_events() else found.help)
            for name, found in COMMANDS.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Likewise."""
        found = [
            click.shell_completion.CompletionItem(name, help=COMMANDS[name].help)
            for name in COMMANDS
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Reads the options before a command, of which `--help` prints."""
        words = [*args]  # click takes them away
        with _ending(self, words):
            context = super().make_context(info_name, args, parent, **extra)
            context.meta[WORDS] = words
            return context

    def invoke(self, ctx: click.Context) -> object:
        """Runs a command to its end."""
        with _ending(self, ctx.meta[WORDS]):
            _check_once(self, ctx.meta[WORDS])
            try:
                return super().invoke(ctx)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()


def _check_once(command: click.Command, words: Sequence[str], parent: click.Context | None = None) -> None:
    """UsageError for an option of one value that stands twice: the last one would win silently."""
    name = command.name if parent else PROGRAM
    context = click.Context(command, parent, info_name=name, **command.context_settings)
    try:
        _, rest, order = command.make_parser(context).parse_args([*words])
    except click.UsageError:  # of what cannot be read at all the command tells
        return
    given = [each for each in order if isinstance(each, click.Option) and not each.multiple]
    for at, each in enumerate(given):
        other = next((before for before in given[:at] if before.name == each.name), None)
        if other is each and not each.is_flag:
            raise click.UsageError(f"{each.opts[0]} is given twice, and takes one value: leave out one", context)
        if other is not None and other is not each:
            raise click.UsageError(f"{other.opts[0]} and {each.opts[0]} exclude each other", context)
    below = command.get_command(context, rest[0]) if isinstance(command, click.Group) and rest else None
    if below is not None:
        _check_once(below, rest[1:], context)


@contextlib.contextmanager
def _ending(group: click.Group, words: Sequence[str]) -> Iterator[None]:
    """An interruption, a closed pipe and a full disk have an exit status and no traceback; mistakes have a hint.

    `group`: all commands; `words`: all behind the program.
    """
    try:
        yield
    except click.UsageError as error:
        from broker.commands.mistakes.usage import advised  # late: few are wrong

        raise advised(error, group, words) from None
    except (KeyboardInterrupt, click.Abort):  # Abort: at a question
        sys.exit(exit_status.INTERRUPTED)
    except BrokenPipeError:
        exit_status.drop_output()
        sys.exit(exit_status.PIPE_CLOSED)
    except OSError as error:
        exit_status.drop_output()
        place = "" if error.filename is None else f"{error.filename}: "
        click.echo(f"{PROGRAM}: {place}{system_reason(error)}", err=True)
        sys.exit(exit_status.FAILED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=exit_status.EPILOG)
@click.version_option(VERSION, prog_name=PROGRAM)
def main() -> None:
    """An RSocket broker: routes requests by tags, and records them in tables."""


add_shells()

if __name__ == "__main__":
    main(prog_name=PROGRAM)
