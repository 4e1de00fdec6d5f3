"""One option: its default, and what stands beside it. Which options there are stands in `broker.config.sections`."""

from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from broker.cluster.settings import ClusterSettings
from broker.forwarding.settings import Settings

# Where the default of an option stands that sets something of the core.
CORE: Final = Settings()
POLICY: Final = CORE.policy
CLUSTER: Final = ClusterSettings()

MAX_NAME_BYTES: Final = 255  # D-06: what a BROKER_INFO or a service's name can hold
MAX_TEXT_BYTES: Final = 4095  # PATH_MAX of Linux without the closing NUL
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What stands beside an option's name, type and default."""

    why: str  # what it does and why it has this default, one or two sentences
    example: str  # a value other than the default, as TOML
    unit: str  # empty where the name says it, or where there is none: see `OptionDoc.unit`
    within: tuple[float, float]  # both ends included; of a text: its bytes of UTF-8
    flag: str  # of `rsocket-broker serve`; empty when there is none
    form: str  # of a text that is more than a text: "chooser", "uuid", "file", "directory", "HOST:PORT", …
    is_secret: bool  # its value is shown to nobody


def option(
    default: T | str,
    why: str,
    example: str,
    unit: str = "",
    within: tuple[float, float] = (0, MAX_TEXT_BYTES),
    flag: str = "",
    form: str = "",
    is_secret: bool = False,
) -> T:
    """A field with this default that knows its `Option`.

    A text may be the default of one of a few words: the core's settings know no more of it.
    """
    known = Option(why, example, unit, within, flag, form, is_secret)
    value: Any = default
    made: T = field(default=value, metadata={"option": known}, repr=not is_secret)
    return made
