"""What BrokerStarted tells: all that whoever repeats the broker's choices must know."""

from broker.core import CoreSettings
from broker.event_log.start_event import policy_texts, started_tags
from broker.routing.policies import Policy
from rsocket_wire.wire.ids import id_text
from tests.fakes import route_id


def test_of_a_service_only_what_differs_is_told() -> None:
    settings = CoreSettings(policies={"orders": Policy(chooser="random"), "stock": Policy()})
    tags = dict(started_tags(settings, [], 7, False))
    assert (tags["service.orders"], tags["service.stock"]) == ("lb_method=random", "")
    assert (tags["seed"], tags["core"]) == ("7", "interpreted")


def test_mates_are_told_by_id() -> None:
    tags = dict(started_tags(CoreSettings(), [route_id(1), route_id(2)], 7, True))
    assert tags["mates"] == f"{id_text(route_id(1))} {id_text(route_id(2))}"
    assert tags["core"] == "compiled"


def test_seconds_are_told_with_all_their_digits() -> None:
    texts = dict(policy_texts(Policy(slow_start_s=0.1234567890123, sticky_ttl_s=300.0)))
    assert (texts["slow_start_s"], texts["sticky_ttl_s"]) == ("0.1234567890123", "300")
