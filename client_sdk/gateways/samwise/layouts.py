"""What each version of the protocol has where: its actions, the frames of its requests, and how many these are.

    0       protocol version     100, 110 or 120
    1       action               "publish"
    2       distribution         "round robin" or "redundant"
    3       min. acknowledged    behind "redundant" only
    n       exchange             n is 3 or 4
    n + 1   routing key

    1.0                          1.1 and 1.2
    n + 2   payload              n + 2    mandatory
                                 n + 3    immediate
                                 n + 4    option count, 12
                                 n + 5    the twelve options, in the order of `values.OPTIONS`
                                 n + 17   header count
                                 n + 18   key, value, key, value …
                                 m        payload

    0       protocol version     100, 110 or 120
    1       action               "rpc"
    2       broker
    3       action               "exchange.declare" or "exchange.delete"
    4       name
    5       type                 of "exchange.declare" only

Everything else has two frames. 1.2 is what libsamwise, samcli and samctl speak: 1.1, and what operators ask for. What
stands in the frames is read by `requests`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from client_sdk.gateways.samwise.frames import counted
from client_sdk.gateways.samwise.values import (
    DECLARE,
    DELETE,
    OPTIONS,
    REDUNDANT,
    RESTART,
    ROUND_ROBIN,
    STOP,
    Refused,
)

# "protocol version = major * 100 + minor" would make 1.1 a 101, but its document prints 110. D-75
VERSION_1_0: Final = 100
VERSION_1_1: Final = 110
VERSION_1_2: Final = 120
VERSIONS: Final = (VERSION_1_0, VERSION_1_1, VERSION_1_2)
CLIENT_VERSION: Final = VERSION_1_1  # what our own client speaks: the newest that is written down

PUBLISH: Final = "publish"
RPC: Final = "rpc"
PING: Final = "ping"
STATUS: Final = "status"
CONTROLS: Final = (STATUS, STOP, RESTART)  # of 1.2, each where the configuration allows it

LEAST_FRAMES: Final = 2  # "A message MUST consist of at least the following two frames"
DISTRIBUTION_AT: Final = 2
ACKS_AT: Final = 3
BROKER_AT: Final = 2
RPC_ACTION_AT: Final = 3
NAME_AT: Final = 4
TYPE_AT: Final = 5
RPC_FRAMES: Final[Mapping[str, int]] = {DECLARE: 6, DELETE: 5}
OPTION_COUNT: Final = b"%d" % len(OPTIONS)

MALFORMED_PUBLISH: Final = "malformed publishing request"  # the words of samd
MALFORMED_RPC: Final = "malformed rpc request"
MALFORMED: Final = "malformed request"


class PublishForm:
    """Where one kind of publishing request has its frames."""

    def __init__(self, what: str, *, has_acks: bool, has_options: bool) -> None:
        self.has_acks: Final = has_acks  # frame 3 is "min. acknowledged"
        self.has_options: Final = has_options  # mandatory, immediate, options and headers: 1.1
        self.exchange_at: Final = 4 if has_acks else 3
        self.routing_key_at: Final = self.exchange_at + 1
        self.mandatory_at: Final = self.exchange_at + 2
        self.immediate_at: Final = self.exchange_at + 3
        self.option_count_at: Final = self.exchange_at + 4
        self.options_at: Final = self.exchange_at + 5
        self.header_count_at: Final = self.options_at + len(OPTIONS)
        self.headers_at: Final = self.header_count_at + 1
        payload_at = self.headers_at if has_options else self.exchange_at + 2
        self.frames_n: Final = payload_at + 1  # without headers
        least = f"of 1.1 has at least {self.frames_n}" if has_options else f"of 1.0 has {self.frames_n}"
        self.expected: Final = f"{what} {least}"

    def fits(self, count: int) -> bool:
        """Whether a request of this form may have so many frames."""
        return count >= self.frames_n if self.has_options else count == self.frames_n


def forms_for(what: str, *, has_acks: bool) -> tuple[PublishForm, ...]:
    """The form of 1.0 and that of 1.1."""
    return tuple(PublishForm(what, has_acks=has_acks, has_options=has_options) for has_options in (False, True))


ROUND_ROBIN_FORMS: Final = forms_for("a round robin request", has_acks=False)
REDUNDANT_FORMS: Final = forms_for("a redundant request", has_acks=True)
# "If "redundant" is provided as an option, another frame is expected to follow." Where only the configuration provides
# it, the caller need not know of it, so the request is taken with this frame and without it. D-78
UNSAID_FORMS: Final = (*forms_for("a request without distribution", has_acks=False), *REDUNDANT_FORMS)


def choose_form(version: int, distribution: str, frames: Sequence[bytes], *, is_default: bool) -> PublishForm:
    """The form of a publishing request; Refused when no form of its version has so many frames.

    `is_default`: the frame of `distribution` was empty, and it comes from the configuration.
    """
    if distribution == ROUND_ROBIN:
        forms = ROUND_ROBIN_FORMS
    elif is_default:
        forms = UNSAID_FORMS
    else:
        forms = REDUNDANT_FORMS
    # D-76: with 100, the count of frames tells whether they are those of 1.0 or of 1.1.
    allowed = [form for form in forms if version == VERSION_1_0 or form.has_options]
    fitting = [form for form in allowed if form.fits(len(frames))]
    if not fitting:
        expected = ", ".join(form.expected for form in allowed)
        raise Refused(f"{MALFORMED_PUBLISH}: {counted(len(frames))}, {expected}", "frames")
    for form in fitting:
        if form.has_options and frames[form.option_count_at] == OPTION_COUNT:
            return form
    return fitting[0]


def encoded_form(distribution: str, *, has_options: bool) -> PublishForm:
    """The form in which a publishing request is written."""
    return (REDUNDANT_FORMS if distribution == REDUNDANT else ROUND_ROBIN_FORMS)[has_options]
