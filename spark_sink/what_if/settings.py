"""The settings of one run of a broker, as the tags of its BrokerStarted tell them, and as a question changes them.

What an event does not tell has the default of `Policy`. Knows no routes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from broker.routing.policies import Policies, Policy
from spark_sink.what_if.question import Question

T = TypeVar("T", int, float)

DEFAULT_LOOKUP_CACHE: Final = 16_384
_SERVICE: Final = "service."  # `service.orders` is `lb_method=random slow_start_s=5`: what that service has of its own

# names in the tags, and where the field of a Policy has another one
_FIELDS: Final = {"lb_method": "chooser"} | {
    name: name
    for name in (
        "shard_method",
        "sticky_ttl_s",
        "slow_start_s",
        "panic_percent",
        "max_in_flight_per_route",
        "max_in_flight_per_service",
    )
}
_DEFAULT: Final = Policy()


class RunSettings:
    """What a replay of one epoch needs to know of the broker that ran."""

    def __init__(self, tags: Mapping[str, str | None]) -> None:
        """`tags` of BrokerStarted; empty when nobody has them."""
        self.seed: Final = _number(tags.get("seed"), 1)
        self.zone: Final = tags.get("zone") or ""
        self.prefers_local: Final = (tags.get("prefers_local") or "yes") == "yes"
        self.mates: Final = frozenset((tags.get("mates") or "").split())  # ids of brokers that count as this one
        self.strict_hints: Final = tags.get("strict_hints") == "yes"
        self.lookup_cache: Final = _number(tags.get("max_lookup_cache"), DEFAULT_LOOKUP_CACHE)
        self._default: Final = _with(_DEFAULT, tags)
        own = {name.removeprefix(_SERVICE): text or "" for name, text in tags.items() if name.startswith(_SERVICE)}
        self._by_service: Final = {
            service: _with(self._default, dict(part.partition("=")[::2] for part in text.split()))
            for service, text in own.items()
        }

    def policies(self, question: Question) -> Policies:
        """The policies, with what the question says of choosers in all of them."""
        said = {"chooser": question.chooser, "shard_method": question.shard}
        asked: dict[str, Any] = {name: method for name, method in said.items() if method is not None}
        asked["eject_after_errors"] = 0  # ejections are in the events; a replay must not judge a second time
        by_service = {name: replace(policy, **asked) for name, policy in self._by_service.items()}
        return Policies(replace(self._default, **asked), by_service)

    def is_asked_for(self, question: Question) -> bool:
        """The question asks for the choosers and the seed that ran, and for the routes that were."""
        if question.without or question.copies_of or question.seed not in (None, self.seed):
            return False
        return all(
            question.chooser in (None, policy.chooser) and question.shard in (None, policy.shard_method)
            for policy in (self._default, *self._by_service.values())
        )


def _with(policy: Policy, tags: Mapping[str, str | None]) -> Policy:
    """As tags tell it; what they do not tell is as it was."""
    told: dict[str, Any] = {field: tags.get(name) or "" for name, field in _FIELDS.items()}
    for field, text in told.items():
        before = getattr(policy, field)
        told[field] = (text or before) if isinstance(before, str) else _number(text, before)
    return replace(policy, **told)


def _number(text: str | None, default: T) -> T:
    """As a number of the kind of the default, which stands for what is none."""
    try:
        return type(default)(text) if text else default
    except ValueError:
        return default
