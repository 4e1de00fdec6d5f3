"""What to write instead of a command line that click cannot read.

Decides the last sentence of what is said of it. Knows the words that were given, and what commands and options there
are. Imports little: whoever mistyped a word waits for it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from broker.commands.mistakes import others
from broker.commands.mistakes.examples import EXAMPLES
from rsocket_wire.files import missing_advice

PROGRAM: Final = "rsocket-broker"
ADMIN: Final = "http://127.0.0.1:7070"
NEAR: Final = 0.75  # so alike, of 1, must options be: "--option" and "--options", never "--url" and "--all"
NEAR_COMMAND: Final = 0.7
MAX_PLACES: Final = 3  # commands that are named as those that have an option
_URL: Final = re.compile(r"[a-z+]+://.")
_FILE: Final = re.compile(r"[^=]*\.(toml|conf|cfg|ini|ya?ml|json)")


def advised(error: click.UsageError, group: click.Group, words: Sequence[str]) -> click.UsageError:
    """The error with what to write instead, or as it is. `group`: all commands; `words`: all behind the program."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error
    if error.ctx is None and isinstance(error, click.BadOptionUsage):  # click does not say of which command
        error.ctx = _context_of(group, words)
    if error.ctx is None:
        return error
    hint = _Line(error.ctx, words).hint_of(error)
    if not hint:
        return error
    # What click proposes is often far from what was meant: `--all` for `--url`.
    is_unknown = isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand)
    known = " ".join((error.message if is_unknown else error.format_message()).split())
    return click.UsageError(f"{known.rstrip('.')}. {hint}", error.ctx)


class _Line:
    """A command line that is wrong."""

    def __init__(self, context: click.Context, words: Sequence[str]) -> None:
        self._context: Final = context
        self._command: Final = context.command
        self._names: Final = _names_of(context)
        self._name: Final = " ".join(self._names)
        self._own: Final = _behind(words, self._names)  # what stands behind the names of the command
        self._known: Final = {each: parameter for parameter in self._command.params for each in parameter.opts}

    def hint_of(self, error: click.UsageError) -> str:
        """Empty: nothing comes to mind."""
        if isinstance(error, click.NoSuchOption):
            return self._no_option(error.option_name)
        if isinstance(error, click.exceptions.NoSuchCommand):
            return self._no_command(error.command_name)
        if isinstance(error, click.MissingParameter):
            return self._missing(error.param) or self._example()
        if isinstance(error, click.BadOptionUsage):
            return self._bad_usage(error)
        if isinstance(error, click.BadParameter):
            return self._bad_value(error)
        if error.message.startswith("Got unexpected extra argument"):
            spare = error.message.partition("(")[2].rstrip(")").split(" ")
            return self._extra(spare) or self._example()
        if error.message.startswith("Missing command"):
            return self._commands()
        return ""

    def _no_command(self, name: str) -> str:
        meant, whole = others.COMMANDS.get(self._name, {}).get(name), self._verb_first(name)
        if meant is not None and whole is None:
            return f"Did you mean {_shown(*self._names, *meant.split())!r}?"
        if whole is not None:
            return f"Did you mean {_shown(*self._names, *whole.split())!r}?"
        behind = self._own[self._own.index(name) + 1 :] if name in self._own else []
        is_route = behind[:1] != [] and behind[0].startswith(("route", "service"))
        instead = others.NO_COMMANDS.get(self._name, {})
        if text := (is_route and instead.get(f"{name} route")) or instead.get(name):
            return text
        if name == "help":
            return f"Write {_shown(*self._names, *self._own[1:2], '-h')}"
        group = self._command
        assert isinstance(group, click.Group)  # which alone looks for one
        near = difflib.get_close_matches(name, group.list_commands(self._context), 1, NEAR_COMMAND)
        if near:
            return f"Did you mean {near[0]!r}?"
        if not self._names and (_URL.match(name) or "=" in name):
            return ""
        return self._commands()

    def _verb_first(self, verb: str) -> str | None:
        """`routes` of `list routes`, `undrain` of `delete drain`; None: no command is called so."""
        begin, behind = others.VERBS.get(verb), self._own[self._own.index(verb) + 1 :] if verb in self._own else []
        if self._name not in ("", "ctl") or begin is None or not behind:
            return None
        if verb in others.MAKING and behind[0] not in ("redirect", "drain"):
            return None  # all else is only shown
        several = f"{behind[0].removesuffix('s')}s"
        wanted = [begin + behind[0], *([] if begin or behind[1:] else [several])]
        ctl = _command_in(self._context.find_root().command, ["ctl"])
        assert ctl is not None  # it is one of COMMANDS
        assert isinstance(ctl[0], click.Group)
        known = ctl[0].list_commands(self._context)
        found = next((each for each in reversed(wanted) if each in known), None)
        return found if found is None or self._names else f"ctl {found}"

    def _commands(self) -> str:
        group = self._command
        if not isinstance(group, click.Group):
            return ""
        if not self._names:
            return f"{_shown('-h')} lists all"
        return f"There are {', '.join(group.list_commands(self._context))}"

    def _no_option(self, option: str) -> str:
        if isinstance(self._command, click.Group):
            return self._before_command(option)
        value = self._value_of(option)
        for hint in (
            others.NO_OPTIONS.get(self._name, {}).get(option, ""),
            self._address(option, value),
            self._serve_option(option, value),
            self._login(option),
            self._stands_alone(option, value),
            self._other_name(option, value),
        ):
            if hint:
                return hint
        near = self._near(option)
        if near:
            return f"Did you mean {near!r}?"
        elsewhere = self._elsewhere(option)
        if value and not elsewhere and option.startswith("--") and "--tag" in self._known:
            return f"For a tag write --tag {option[2:]}={shlex.quote(value)}"
        return elsewhere or self._example()

    def _before_command(self, option: str) -> str:
        """An option that stands in front of the name of the command that has it."""
        if not self._names and option in ("-v", "-V", "--verbose") and self._own[1:2] == ["serve"]:
            return others.MORE_LOG
        if not self._names and option in ("-v", "-V"):
            return f"Write {_shown('--version')}"
        if address := self._address(option, self._value_of(option)):
            return address
        at = _place_of(option, self._own)
        if at is None:
            return ""
        for with_value in (True, False):
            is_joined = "=" in self._own[at]
            end = at + 1 + (with_value and not is_joined)
            rest = [*self._own[:at], *self._own[end:]]
            found = _command_in(self._command, rest)
            if found is None:
                continue
            parameter = _option_of(found[0], option)
            if parameter is not None and (is_joined or with_value != _is_flag(parameter)):
                moved = _shown(*self._names, *rest, *self._own[at:end])
                return f"It stands behind the command: {moved}"
        own = self._own[at + 1 :]
        found = _command_in(self._command, own)
        if found is not None:
            return f"{_shown(*self._names, *found[1], '-h')} lists the options of the command"
        near = self._near(option)
        return f"Did you mean {near!r}?" if near else self._elsewhere(option) or self._commands()

    def _near(self, option: str) -> str:
        begun = [each for each in self._known if len(option) > 3 and each.startswith(option)]
        near = begun or difflib.get_close_matches(option, [each for each in self._known if each[:2] == "--"], 1, NEAR)
        return near[0] if near else ""

    def _address(self, option: str, value: str) -> str:
        """The address of a broker, where that is no option."""
        if option not in (*others.ADDRESSES, *others.PORTS) and not (option == "-u" and "://" in value):
            return ""
        if self._name == "serve":
            if option in others.PORTS:
                return f"Write --listen tcp://127.0.0.1:{value if value.isdecimal() else 'PORT'}"
            return f"Write --listen {value if _URL.match(value) else 'tcp://HOST:PORT'}"
        if "words" in [each.name for each in self._command.params]:
            if any(_URL.match(each) for each in self._own if each != value):
                return f"Leave {option} out, the URL says where the broker is"
            if _URL.match(value):
                url = value
            elif option in others.PORTS:
                url = f"tcp://127.0.0.1:{value}" if value.isdecimal() else "tcp://HOST:PORT"
            else:
                port = self._value_of("--port") or self._value_of("-p")
                url = f"tcp://{value}{':' if port else ''}{port}" if value else "tcp://HOST:PORT"
            given = self._without(option, *others.PORTS) if value else [PLACEHOLDER]
            # The name of what is offered stands first.
            return f"The URL stands without an option: {_shown(*self._names, *_with_url(self._name, given, url))}"
        if "--admin" in self._known:
            url = value if value.startswith(("http://", "https://")) else ADMIN
            line = _shown(*self._names, "--admin", url, *self._without(option))
            return f"The address of the REST API is --admin: {line}"
        if "--endpoint" in self._known:
            return f"The gateway is --endpoint: {_shown(*self._names, '--endpoint', value or 'tcp://HOST:PORT')}"
        return ""

    def _serve_option(self, option: str, value: str) -> str:
        """What only the configuration has."""
        if self._name == "check" and option == "--config":
            return f"The file stands alone: {_shown('check', value or 'FILE')}"
        if self._name != "serve" or not option.startswith("--"):
            return ""
        from broker.config.options import OPTIONS as CONFIGURED

        key = option[2:].replace("-", "_")
        same = [doc for doc in CONFIGURED.values() if key in (doc.key, f"{doc.section}_{doc.key}")]
        if len(same) != 1:
            return ""
        example = value or same[0].option.example.strip('"')
        return f"Write {same[0].key} in [{same[0].section}] of the file of --config, or {same[0].variable}={example}"

    def _login(self, option: str) -> str:
        if option == "--password" and "--user" in self._known:
            return "Write --user NAME, with the password in the variable RSOCKET_BROKER_PASSWORD"
        if option in ("--token", "--jwt", "--bearer") and "--token-file" in self._known:
            variable = "RSB_TOKEN" if "--admin" in self._known else "RSOCKET_BROKER_TOKEN"
            return f"Write --token-file FILE, or the token in the variable {variable}"
        if "--ca" in self._known and "words" in [each.name for each in self._command.params]:
            if option in others.NO_CHECK:
                return "A certificate is always checked; --ca FILE trusts the CA in FILE"
            if option in others.TLS:
                return "TLS is in the URL: tls://HOST:PORT or wss://HOST:PORT"
        return ""

    def _stands_alone(self, option: str, value: str) -> str:
        """The name of an argument, which no option is."""
        key = option.lstrip("-").replace("-", "_")
        for each in self._command.params:
            if isinstance(each, click.Argument) and each.name != "words" and key in (each.name, _label(each).lower()):
                line = _shown(*self._names, *([value] if value else [_label(each)]), *self._without(option))
                return f"{_label(each)} stands without an option: {line}"
        if option in ("--service", "--service-name") and self._name == "offer":
            return f"NAME stands without an option: {_shown('offer', value or 'NAME', *self._without(option))}"
        return ""

    def _other_name(self, option: str, value: str) -> str:
        for own, names in (*others.OPTIONS_OF.get(self._names[0], {}).items(), *others.OPTIONS.items()):
            if option in names and own in self._known:
                fits = value and (own != "--meta" or "=" in value)
                wanted = shlex.quote(value) if fits else _metavar(self._known[own])
                return f"Write {own}" if _is_flag(self._known[own]) else f"Write {own} {wanted}"
        return ""

    def _elsewhere(self, option: str) -> str:
        """Which other commands have the option."""
        root = self._context.find_root()
        has = [names for names, command in _walk(root.command, root, ()) if _option_of(command, option) is not None]
        # In another group the same word may be about something else.
        group = self._names if isinstance(self._command, click.Group) else self._names[:-1]
        beside = [names for names in has if names[: len(group)] == group]
        if not beside or len(beside) > MAX_PLACES or len(option) < 3:
            return ""
        return f"{_either([_shown(*names) for names in beside])} {'have' if len(beside) > 1 else 'has'} {option}"

    def _missing(self, parameter: click.Parameter | None) -> str:
        """An argument that stands where only options do may be what is missing."""
        alone = self._alone()
        if not isinstance(parameter, click.Option) or len(alone) != 1 or not _URL.match(alone[0]):
            return ""
        if parameter.name != "endpoint" or any(isinstance(each, click.Argument) for each in self._command.params):
            return ""
        rest = [each for each in self._own if each != alone[0]]
        return f"Write {_shown(*self._names, parameter.opts[0], alone[0], *rest)}"

    def _bad_usage(self, error: click.BadOptionUsage) -> str:
        parameter = self._known.get(error.option_name)
        if parameter is None:
            return ""
        if "does not take a value" in error.message:
            return f"Write {error.option_name} alone"
        return f"Write {error.option_name} {_metavar(parameter)}"

    def _bad_value(self, error: click.BadParameter) -> str:
        if error.param is None:
            return ""
        if error.param.name == "what" and self._name in ("ctl drain", "ctl undrain"):
            return self._drain_of(self._alone())
        if self._name == "ctl close":
            return f"{_shown('ctl', 'connections')} lists the numbers"
        if isinstance(error.param.type, click.Path | click.File):
            return _path_hint(error.message)
        if isinstance(error.param.type, click.Choice):
            given = re.match(r"'(.*)' is not one of", error.message)
            words = [str(each) for each in error.param.type.choices]
            word = given[1].lower().replace("-", "_") if given else ""
            within = [each for each in words if word in each.split("_")]  # `stream` in request_stream
            near = within if len(within) == 1 else difflib.get_close_matches(word, words, 1, NEAR)
            return f"Did you mean {near[0]!r}?" if near else ""
        return ""

    def _drain_of(self, alone: Sequence[str]) -> str:
        first = alone[0] if alone else "orders"
        if re.fullmatch(r"[0-9a-fA-F-]{32,36}", first):
            return f"Write {_shown(*self._names, 'route', first)}"
        if "=" in first:
            return f"Write {_shown(*self._names, 'tag', first)}"
        if first in ("connection", "connections", "peer"):
            return f"A connection is ended: {_shown('ctl', 'close', *(alone[1:2] or ['NUMBER']))}"
        if first == "service" and len(alone) > 1:
            first = alone[1]
        return f"The routes of a service: {_shown(*self._names, 'tag', f'service={first}')}"

    def _extra(self, spare: Sequence[str]) -> str:
        """What words too many may have been meant for."""
        first = spare[0]
        if self._name in ("ctl drain", "ctl undrain") and len(spare) == 1 and self._alone()[:1] == ["tag"]:
            key = self._alone()[1]
            return f"Write {_shown(*self._names, 'tag', f'{key}={first}')}" if "=" not in key else ""
        if self._name == "password":
            return "The password is asked for, or read from standard input; it is no word of the command line"
        if first == "help":
            return f"Write {_shown(*self._names, '-h')}"
        if first in ("list", "ls", "show", "all") and self._names[:1] == ("ctl",) and len(spare) == 1:
            return f"Write {_shown(*self._names)}"
        if first.isdecimal() and self._name == "serve":
            return f"Write --listen tcp://127.0.0.1:{first}"
        if self._names == ("ctl", "services") and len(spare) == 1:
            return f"Write {_shown('ctl', 'service', first)}"
        for option in self._takers(first):
            rest = self._without_word(first)
            return f"Write {_shown(*self._names, *rest, option, first)}"
        return ""

    def _takers(self, word: str) -> Iterator[str]:
        """Options that may have been meant for a word that stands alone, first the likeliest."""
        for each, parameter in self._known.items():
            is_choice = isinstance(parameter.type, click.Choice) and word in parameter.type.choices
            if is_choice and each.startswith("--") and not _is_flag(parameter):
                yield each
        if _URL.match(word):
            wanted: tuple[str, ...] = ("--admin",) if word.startswith("http") else ("--listen", "--endpoint", "--url")
        elif _FILE.fullmatch(word):
            wanted = ("--config", "--file")
        elif "=" in word:
            wanted = ("--tag",)
        elif word.isdecimal():
            wanted = ("--routes",)
        elif "/" in word and self._name not in ("simulate", "table"):  # either of two
            wanted = ("--dir", "--tables")
        else:
            wanted = ("--service",) if self._name.startswith("ctl ") or self._name == "shard-plan" else ()
        yield from (each for each in wanted if each in self._known)

    def _example(self) -> str:
        example = EXAMPLES.get(self._name)
        return f"For example: {PROGRAM} {example}" if example else ""

    def _value_of(self, option: str) -> str:
        """What stands behind it; empty: nothing, or another option."""
        at = _place_of(option, self._own)
        if at is None:
            return ""
        if "=" in self._own[at]:
            return self._own[at].partition("=")[2]
        behind = self._own[at + 1 : at + 2]
        return behind[0] if behind and not behind[0].startswith("-") else ""

    def _without(self, *options: str) -> list[str]:
        """What else was given."""
        given = list(self._own)
        for option in options:
            at = _place_of(option, given)
            if at is not None:
                is_joined = "=" in given[at]
                has_value = not is_joined and given[at + 1 : at + 2] != [] and not given[at + 1].startswith("-")
                del given[at : at + 1 + has_value]
        return given

    def _without_word(self, word: str) -> list[str]:
        given = list(self._own)
        if word in given:
            given.remove(word)
        return given

    def _alone(self) -> list[str]:
        """Words that are neither options nor their values."""
        found, takes_value = [], False
        for word in self._own:
            if takes_value:
                takes_value = False
            elif word.startswith("-") and len(word) > 1:
                parameter = self._known.get(word)
                takes_value = parameter is not None and not _is_flag(parameter)
            else:
                found.append(word)
        return found


PLACEHOLDER: Final = "…"


def _path_hint(said: str) -> str:
    """What to write instead of the file or folder of which click says that."""
    found = re.search(r"'(.+)'(?: does not exist|: No such file or directory)", said)
    if found is not None:
        advice = missing_advice(found[1]).removeprefix("; ")
        return f"{advice[:1].upper()}{advice[1:]}"
    if said.endswith("is a file."):
        return "Write the path of a folder"
    return "Write the path of a file" if "s a directory" in said else ""


def _with_url(name: str, given: list[str], url: str) -> list[str]:
    """Words of a command with the URL where its help has it: behind the name of `offer`, else first."""
    if given == [PLACEHOLDER]:
        return [*(["NAME"] if name == "offer" else []), url, *given]
    at = 1 if name == "offer" and given and not given[0].startswith("-") else 0
    return [*given[:at], url, *given[at:]]


def _context_of(group: click.Group, words: Sequence[str]) -> click.Context:
    """Of the command that the words name."""
    context = click.Context(group, info_name=PROGRAM)
    _, names = _command_in(group, words) or (group, ())
    for name in names:
        assert isinstance(context.command, click.Group)  # it had the name
        command = context.command.get_command(context, name)
        assert command is not None
        context = click.Context(command, parent=context, info_name=name)
    return context


def _names_of(context: click.Context) -> tuple[str, ...]:
    """Of the command and the groups that it is in, without the program."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, context.info_name or "")
        context = context.parent
    return tuple(names)


def _behind(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """What stands behind these names, one after another."""
    at = 0
    for name in names:
        if name not in words[at:]:
            return []
        at = words.index(name, at) + 1
    return list(words[at:])


def _place_of(option: str, words: Sequence[str]) -> int | None:
    """Where it stands among the words, as `--option` or `--option=VALUE`."""
    return next((at for at, each in enumerate(words) if each == option or each.startswith(f"{option}=")), None)


def _command_in(group: click.Command, words: Sequence[str]) -> tuple[click.Command, tuple[str, ...]] | None:
    """The command that the words name, with its names; None: there is none."""
    command: click.Command = group
    names: tuple[str, ...] = ()
    for word in words:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(click.Context(command), word)
        if below is None:
            return None
        command, names = below, (*names, word)
    return None if command is group else (command, names)


def _option_of(command: click.Command, option: str) -> click.Option | None:
    return next((each for each in command.params if isinstance(each, click.Option) and option in each.opts), None)


def _walk(
    command: click.Command, context: click.Context, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands below, with their names."""
    if not isinstance(command, click.Group):
        yield names, command
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from _walk(below, context, (*names, name))


def _is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)


def _metavar(parameter: click.Parameter) -> str:
    """What stands for a value in help: `NAME=VALUE`."""
    if isinstance(parameter.type, click.Choice):
        return str(parameter.type.choices[0])
    return parameter.metavar or (parameter.name or "").removesuffix("_s").removesuffix("_n").upper()


def _label(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "").strip("[]").upper()


def _shown(*words: str) -> str:
    return " ".join([PROGRAM, *(word if word == PLACEHOLDER else shlex.quote(word) for word in words)])


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
