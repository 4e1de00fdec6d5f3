"""The settings of one run of a broker, as the tags of its BrokerStarted tell them, and as a question changes them.

What an event does not tell has the default of `Policy`. Knows no routes.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.routing.policies import Policies, Policy
from spark_sink.what_if.question import Question

DEFAULT_LOOKUP_CACHE: Final = 16_384
_SERVICE: Final = "service."  # `service.orders` is `lb_method=random slow_start_s=5`: what that service has of its own

# name in the tags -> field of a Policy, and its type
_FIELDS: Final[dict[str, tuple[str, type]]] = {
    "lb_method": ("chooser", str),
    "shard_method": ("shard_method", str),
    "sticky_ttl_s": ("sticky_ttl_s", float),
    "slow_start_s": ("slow_start_s", float),
    "panic_percent": ("panic_percent", int),
    "max_in_flight_per_route": ("max_in_flight_per_route", int),
    "max_in_flight_per_service": ("max_in_flight_per_service", int),
}


class RunSettings:
    """What a replay of one epoch needs to know of the broker that ran."""

    def __init__(self, tags: Mapping[str, str | None]) -> None:
        """`tags` of BrokerStarted; empty when nobody has them."""
        self.has_seed: Final = (tags.get("seed") or "").isdigit()
        self.seed: Final = int(tags.get("seed") or 1) if self.has_seed else 1
        self.zone: Final = tags.get("zone") or ""
        self.prefers_local: Final = (tags.get("prefers_local") or "yes") == "yes"
        self.mates: Final = frozenset((tags.get("mates") or "").split())  # ids of brokers that count as this one
        self.strict_hints: Final = tags.get("strict_hints") == "yes"
        self.lookup_cache: Final = _number(tags.get("max_lookup_cache"), int, DEFAULT_LOOKUP_CACHE)
        self._default: Final = _fields(tags)
        self._by_service: Final = {
            name.removeprefix(_SERVICE): self._default | _fields(_own(text))
            for name, text in tags.items()
            if name.startswith(_SERVICE)
        }

    def policies(self, question: Question) -> Policies:
        """The policies, with what the question says of choosers in all of them."""
        asked: dict[str, Any] = {}
        if question.chooser is not None:
            asked["chooser"] = question.chooser
        if question.shard is not None:
            asked["shard_method"] = question.shard
        # Ejections are in the events; a replay must not judge a second time.
        fixed = {"eject_after_errors": 0}
        by_service = {name: Policy(**(fields | asked | fixed)) for name, fields in self._by_service.items()}
        return Policies(Policy(**(self._default | asked | fixed)), by_service)

    def is_asked_for(self, question: Question) -> bool:
        """The question asks for the choosers and the seed that ran, and for the routes that were."""
        if question.without or question.copies_of or question.seed not in (None, self.seed):
            return False
        every = [self._default, *self._by_service.values()]
        default = Policy()
        return all(
            question.chooser in (None, fields.get("chooser", default.chooser))
            and question.shard in (None, fields.get("shard_method", default.shard_method))
            for fields in every
        )


def _own(text: str | None) -> dict[str, str | None]:
    """`lb_method=random slow_start_s=5` by name."""
    return {name: value for name, _, value in (part.partition("=") for part in (text or "").split())}


def _fields(tags: Mapping[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (field, kind) in _FIELDS.items():
        text = tags.get(name)
        if text:
            value = text if kind is str else _number(text, kind, None)
            if value is not None:
                found[field] = value
    return found


def _number(text: str | None, kind: type, default: Any) -> Any:
    try:
        return kind(text) if text else default
    except ValueError:
        return default
