"""What BrokerStarted tells: which broker this is, and all that whoever repeats its choices must know."""

from dataclasses import fields
from typing import Final

from broker import VERSION
from broker.forwarding.settings import Settings
from broker.routing.policies import Policy
from rsocket_wire.wire.ids import id_text

TOLD_CALLERS: Final = "identity"  # of a policy: what a service is told, which no choice depends on
SERVICE: Final = "service."  # before the name of a service that has something of its own


def started_tags(settings: Settings, mates: list[bytes], seed: int, is_compiled: bool) -> list[tuple[str, str]]:
    """`mates`: ids of workers whose routes count as its own. `seed`: of the numbers that choosers draw.

    Of a service only what differs: `service.orders`, `lb_method=random`.
    """
    default = policy_texts(settings.policy)
    tags = [
        ("version", VERSION),
        ("core", "compiled" if is_compiled else "interpreted"),
        ("zone", settings.zone),
        ("seed", str(seed)),
        ("prefers_local", _yes_or_no(settings.locality == "local")),
        ("mates", " ".join([id_text(each) for each in mates])),
        ("strict_hints", _yes_or_no(settings.strict_hints)),
        ("max_lookup_cache", str(settings.max_lookup_cache)),
        ("no_route", settings.no_route),
        ("single_requests", str(settings.single_requests)),
        *default,
    ]
    for name in sorted(settings.policies):
        own = [f"{key}={text}" for key, text in policy_texts(settings.policies[name]) if (key, text) not in default]
        tags.append((SERVICE + name, " ".join(own)))
    return tags


def policy_texts(policy: Policy) -> list[tuple[str, str]]:
    """The settings of a service that choices depend on, by name."""
    found: list[tuple[str, str]] = []
    for each in fields(policy):
        if each.name == TOLD_CALLERS:
            continue
        value: object = getattr(policy, each.name)
        text = f"{value:.15g}" if isinstance(value, float) else str(value)
        found.append(("lb_method" if each.name == "chooser" else each.name, text))
    return found


def _yes_or_no(is_so: bool) -> str:
    return "yes" if is_so else "no"
