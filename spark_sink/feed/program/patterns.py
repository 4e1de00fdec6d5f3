"""Which paths are wanted: regular expressions, of which one must match, and others of which none may."""

import re
from collections.abc import Callable, Sequence

Accepts = Callable[[str], bool]


def accepts_of(accept: Sequence[str], reject: Sequence[str]) -> Accepts:
    """Is a relPath wanted? A pattern has to be found in it; none in `accept`: all are. re.error: a pattern is none."""
    accepted = [re.compile(pattern).search for pattern in accept]
    rejected = [re.compile(pattern).search for pattern in reject]

    def is_accepted(path: str) -> bool:
        if any(match(path) for match in rejected):
            return False
        return not accepted or any(match(path) for match in accepted)

    return is_accepted
