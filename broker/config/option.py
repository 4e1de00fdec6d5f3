"""One option: its default, and what stands beside it. Which options there are stands in `broker.config.options`."""

from dataclasses import dataclass, field
from typing import Final, TypeVar

MAX_TEXT_BYTES: Final = 4095  # PATH_MAX of Linux without the closing NUL
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What stands beside an option's name, type and default."""

    why: str  # what it does and why it has this default, one or two sentences
    example: str  # a value other than the default, as TOML
    unit: str
    within: tuple[float, float]  # both ends included; of a text: its bytes of UTF-8
    flag: str  # of `rsocket-broker serve`; empty when there is none
    form: str  # of a text that is more than a text: "chooser", "uuid", "file", "directory", "HOST:PORT", …
    per_service: bool  # [service.NAME] may have it, too
    is_secret: bool  # its value is shown to nobody


def option(
    default: T,
    why: str,
    example: str,
    unit: str = "",
    within: tuple[float, float] = (0, MAX_TEXT_BYTES),
    flag: str = "",
    form: str = "",
    per_service: bool = False,
    is_secret: bool = False,
) -> T:
    """A field with this default that knows its `Option`."""
    known = Option(why, example, unit, within, flag, form, per_service, is_secret)
    made: T = field(default=default, metadata={"option": known}, repr=not is_secret)
    return made
