"""Which kind of multicast serves which interaction model."""

from broker.forwarding.multicast.call import MulticastCall
from broker.forwarding.multicast.channel import Channel
from broker.forwarding.multicast.first_answer import FirstAnswer
from broker.forwarding.multicast.merge import Merge
from broker.forwarding.multicast.steps import StepQueue
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.flows import Flow
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM


def open_multicast(
    queue: StepQueue,
    caller: Peer,
    caller_id: int,
    flow: Flow,
    model: int,
    now: float,
    credit_n: int,
    branches_n: int,
) -> MulticastCall:
    """The call for an interaction model: `credit_n` of a stream or channel, for `branches_n` branches, one at least."""
    if model == REQUEST_RESPONSE:
        return FirstAnswer(queue, caller, caller_id, flow, model, now)
    if model == REQUEST_STREAM:
        return Merge(queue, caller, caller_id, flow, model, now, credit_n, branches_n)
    if model == REQUEST_CHANNEL:
        return Channel(queue, caller, caller_id, flow, model, now, credit_n, branches_n)
    return MulticastCall(queue, caller, caller_id, flow, model, now)
