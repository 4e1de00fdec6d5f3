"""What can be set about a service, and for which."""

from broker.routing.policies import Policies, Policy


def test_a_service_has_its_own_policy_or_that_of_all_and_any_of_them_may_limit_services() -> None:
    own, default, limited = Policy(chooser="random"), Policy(), Policy(max_in_flight_per_service=3)
    policies = Policies(default, {"orders": own})
    assert (policies.of("orders"), policies.of("billing"), policies.limits_services) == (own, default, False)
    assert (Policies(default, {"orders": limited}).limits_services, Policies(limited, {}).limits_services) == (
        True,
    ) * 2
