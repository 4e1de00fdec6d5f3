"""A tag as a person types it behind a command."""

import click


def split_tag(what: str, text: str) -> tuple[str, str | None]:
    """NAME=VALUE, or NAME alone, which has no value. UsageError, which says what to write.

    A colon and no `=` is a slip: other programs write tags so. Whoever has a name with a colon writes `=` behind it.
    """
    name, sign, value = text.partition("=")
    if not name:
        raise click.UsageError(f"{what} {text!r} has no name; write NAME=VALUE")
    if not sign and ":" in text:
        raise click.UsageError(f"{what} {text!r} is no NAME=VALUE; write {text.replace(':', '=', 1)}")
    return name, value if sign else None
