"""How a broker and its gateways are, in words, for the page and for `ctl`.

Takes what the API answers and imports nothing of it: `ctl` need not load the schemas to say it.
"""

from collections.abc import Mapping
from typing import Any


def load_texts(status: Mapping[str, Any]) -> dict[str, str]:
    """What the broker has to do, on the page and in `ctl status`; of the fields of a StatusView."""
    cluster, waiting = status["cluster"], status["waiting"]
    brokers = f"{cluster['reachable']:,} of {cluster['brokers']:,} brokers reachable"
    states = [f"{number:,} {state}" for state, number in status["route_states"].items() if number]
    return {
        "connections": f"{status['connections']:,} now, {status['connections_accepted']:,} ever",
        "cluster": f"{cluster['name']}, {brokers}, {cluster['links_up']:,} of {cluster['links']:,} links up",
        "routes": f"{status['routes']:,} for {status['services']:,} services",
        "excluded": ", ".join(states) or "none",
        "requests": f"{status['streams']:,} in flight, {waiting['requests']:,} wait, {status['requests']:,} ended",
        "drained": f"{status['drains']:,}" if status["drains"] else "nothing",
    }


def samwise_texts(state: Mapping[str, Any]) -> dict[str, str]:
    """What the Samwise gateway has to do, on the page and in `ctl samwise status`; of the fields of a SamwiseView."""
    oldest_s = state["oldest_age_s"]
    known = [each["is_up"] for each in state["destinations"] if each["is_up"] is not None]
    return {
        "callers": f"{state['callers']:,} now, {state['callers_refused']:,} refused",
        "accepted": f"{state['accepted']:,}, {sum(state['refused'].values()):,} requests refused",
        "waiting": f"{state['waiting']:,}" + (f", the oldest for {oldest_s:,.0f} s" if oldest_s is not None else ""),
        "dead letters": f"{state['dead']:,}",
        "destinations": f"{sum(known):,} of {len(known):,} up",
    }


def feed_texts(state: Mapping[str, Any]) -> dict[str, str]:
    """What each folder of the feed has to do, on the page and in `ctl feed status`; of the fields of a FeedView."""
    texts = {}
    for each in state["posted"]:
        behind = [sink for sink in each["sinks"] if sink["waiting"]]
        lacking = [consumer for consumer in each["consumers"] if consumer["missing"]]
        waiting = f", {each['waiting']:,} wait" if each["waiting"] else ""
        sinks = f"; {len(behind):,} of {len(each['sinks']):,} sinks are behind" if behind else ""
        consumers = f"; {len(lacking):,} of {len(each['consumers']):,} consumers lack files" if lacking else ""
        problem = f"; {each['problem']}" if each["problem"] else ""
        texts[each["name"]] = f"{each['files']:,} announced{waiting}{sinks}{consumers}{problem}"
    for each in state["mirrors"]:
        problem = f"; {each['problem']}" if each["problem"] else ""
        texts[each["name"]] = (
            f"{each['done']:,} mirrored, {each['retries']:,} wait, {each['refused']:,} refused{problem}"
        )
    for each in state["winnowed"]:
        problem = f"; {each['problem']}" if each["problem"] else ""
        texts[each["name"]] = f"{each['passed']:,} posts passed on, {each['repeats']:,} repeats{problem}"
    return texts
