"""A chooser that goes by how long requests take."""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn, another, draw, is_left_out
from broker.routing.health.loads import KNOWN_US, Load
from broker.routing.rng import Rng
from broker.routing.table import Route

UNKNOWN_US: Final = 1e9  # a route that nobody knows and that already has a request waits for its first answer


class PeakEwma(Chooser):
    """Of two that are drawn the one where the request will be done sooner: latency times requests in flight.

    For routes that differ in speed, or whose speed changes. The latency of a route jumps up with a slow answer at once
    and comes down to 1/e in each ten seconds, also when nobody asks, so that who was slow is tried again.
    Source: Finagle's peak EWMA balancer.
    """

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        if among.size == 1:
            return among.route_at(0)
        first = draw(among, rng, now)
        one = among.route_at(first)
        other = among.route_at(another(first, among.size, rng))
        if now < among.warm_at and is_left_out(other, one, rng, now):
            return one
        return one if wait_us(one.load, now) <= wait_us(other.load, now) else other


def wait_us(load: Load, now: float) -> float:
    """How long a request would take, by weight, as far as anybody knows. From now on somebody wants to know."""
    load.is_measured = True
    latency_us = load.latency_us(now)
    if latency_us < KNOWN_US:
        latency_us = UNKNOWN_US if load.in_flight else 0.0  # nobody knows, and it is idle: try it
    return latency_us * float(load.in_flight + 1) / float(load.weight)
