"""Requests frame by frame: every count of frames, versions, actions, rpc, texts, and what real programs send."""

from collections.abc import Callable

import pytest

from client_sdk.gateways.samwise.frames import MAX_TEXT_BYTES
from client_sdk.gateways.samwise.requests import Defaults, Rules, encode_request, read_request
from client_sdk.gateways.samwise.values import HEADER_PAIRS, Control, Ping, Publish, Refused, Request, Rpc, Status
from tests.client_sdk.gateways.samwise.scripts import (
    DECLARE,
    DELETE,
    REDUNDANT_1_0,
    REDUNDANT_1_1,
    ROUND_ROBIN_1_0,
    ROUND_ROBIN_1_1,
    RULES,
    is_taken,
    publish_of,
    refusal_of,
    with_count,
    with_frames,
    with_headers,
    with_options,
)
from tests.client_sdk.gateways.samwise.vectors import ANSWERED_BY_SAMD, SENT_BY_CLIENTS, Exchange

ALL_CONTROLS = Rules(controls=frozenset({"status", "stop", "restart"}))
# One request of each kind without headers, and each count of its frames that is taken: with version 100, frames of 1.1
# of which all but the first are lost are a request of 1.0.
FORMS = {
    "round robin 1.0": (ROUND_ROBIN_1_0, [6]),
    "redundant 1.0": (REDUNDANT_1_0, [7]),
    "round robin 1.1": (ROUND_ROBIN_1_1, [22]),
    "round robin 1.1 with 100": (with_frames(ROUND_ROBIN_1_1, {0: b"100"}), [6, 22]),
    "redundant 1.1": (REDUNDANT_1_1, [23]),
    "redundant 1.1 with 100": (with_frames(REDUNDANT_1_1, {0: b"100"}), [7, 23]),
    "round robin 1.2": (with_frames(ROUND_ROBIN_1_1, {0: b"120"}), [22]),
    "redundant 1.2": (with_frames(REDUNDANT_1_1, {0: b"120"}), [23]),
    "exchange.declare": (DECLARE, [6]),
    "exchange.delete": (DELETE, [5]),
    "ping": ([b"100", b"ping"], [2]),
    "status": ([b"120", b"status"], [2]),
    "stop": ([b"120", b"stop"], [2]),
    "restart": ([b"120", b"restart"], [2]),
}


# Counts of frames


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_exactly_its_frames(form: str) -> None:
    frames, counts = FORMS[form]
    assert [count for count in range(41) if is_taken(with_count(frames, count), ALL_CONTROLS)] == counts


def test_without_distribution_a_redundant_request_has_min_acknowledged_or_not() -> None:
    rules = Rules(defaults=Defaults(distribution="redundant", acks_n=3))
    unsaid = {2: b""}
    for frames in (REDUNDANT_1_0, REDUNDANT_1_1):
        assert publish_of(with_frames(frames, unsaid), rules).acks_n == 2
    for frames in (ROUND_ROBIN_1_0, ROUND_ROBIN_1_1, with_frames(ROUND_ROBIN_1_1, {0: b"100"})):
        publish = publish_of(with_frames(frames, unsaid), rules)
        assert (publish.distribution, publish.acks_n, publish.exchange) == ("redundant", 3, "orders")
    for frames, lengths in ((REDUNDANT_1_0, [6, 7]), (REDUNDANT_1_1, [23]), (ROUND_ROBIN_1_1, [22])):
        unsaid_frames = with_frames(frames, unsaid)
        assert [n for n in range(41) if is_taken(with_count(unsaid_frames, n), rules)] == lengths


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([], "malformed request: 0 frames, at least 2 are expected"),
        ([b"100"], "no payload: 1 frame, at least 2 are expected"),
        ([b"100", b"ping", b""], "malformed request: 3 frames, ping has 2"),
        ([b"120", b"status", b""], "malformed request: 3 frames, status has 2"),
        ([b"100", b"publish"], "malformed publishing request: 2 frames, frame 2, distribution, is missing"),
        (
            ROUND_ROBIN_1_0[:5],
            "malformed publishing request: 5 frames, a round robin request of 1.0 has 6, a round robin request of 1.1"
            " has at least 22",
        ),
        (
            with_frames(ROUND_ROBIN_1_0, {0: b"110"}),
            "malformed publishing request: 6 frames, a round robin request of 1.1 has at least 22",
        ),
        (
            REDUNDANT_1_1[:22],
            "malformed publishing request: 22 frames, a redundant request of 1.1 has at least 23",
        ),
        (
            [*ROUND_ROBIN_1_1, b"more"],
            "malformed publishing request: 23 frames, with a header count of 0 it has 22",
        ),
        ([b"100", b"rpc", b""], "malformed rpc request: 3 frames, at least 4 are expected"),
        (DECLARE[:5], "malformed rpc request: 5 frames, exchange.declare has 6"),
        ([*DELETE, b"more"], "malformed rpc request: 6 frames, exchange.delete has 5"),
    ],
)
def test_a_wrong_count_of_frames_is_told_with_the_right_one(frames: list[bytes], text: str) -> None:
    assert refusal_of(frames) == ("frames", text)


def test_frames_and_bytes_of_a_request_are_bounded() -> None:
    few = Rules(max_frames=22)
    assert is_taken(ROUND_ROBIN_1_1, few)
    assert refusal_of(REDUNDANT_1_1, few) == ("limit", "malformed request: 23 frames, 22 are allowed")
    small = Rules(max_message_bytes=100)
    frames = with_frames(ROUND_ROBIN_1_0, {5: bytes(100 - sum(map(len, ROUND_ROBIN_1_0[:5])))})
    assert is_taken(frames, small)
    frames[5] += b"x"
    assert refusal_of(frames, small) == ("limit", "malformed request: 101 bytes, 100 are allowed")


def test_what_is_taken_where_nothing_is_configured() -> None:
    assert Rules() == Rules(
        strict=False,
        min_version=100,
        controls=frozenset({"status"}),
        defaults=Defaults(distribution="", acks_n=None, exchange="", routing_key="", options={}),
        max_frames=1024,
        max_message_bytes=16_777_216,
    )


# Versions and actions


@pytest.mark.parametrize("version", [100, 110, 120])
def test_three_versions_are_spoken(version: int) -> None:
    assert read_request([b"%d" % version, b"ping"], RULES) == Ping(version)


def test_all_other_versions_are_refused() -> None:
    for version in range(1, 1000):
        assert is_taken([b"%d" % version, b"ping"]) == (version in (100, 110, 120))


def test_a_version_is_refused_with_those_that_are_spoken() -> None:
    begin = "wrong protocol version: frame 0 is"
    assert refusal_of([b"101", b"ping"]) == ("version", f"{begin} '101', spoken here: 100, 110, 120")
    # "The following frames SHALL not be empty: - protocol version (frame 0)"
    assert refusal_of([b"", b"ping"]) == ("version", f"{begin} '', spoken here: 100, 110, 120")
    assert refusal_of([b"121"]) == ("version", f"{begin} '121', spoken here: 100, 110, 120")


def test_old_versions_are_refused_where_that_is_configured() -> None:
    rules = Rules(min_version=110)
    assert is_taken([b"110", b"ping"], rules)
    text = "wrong protocol version: frame 0 is '100', spoken here: 110, 120"
    assert refusal_of([b"100", b"ping"], rules) == ("version", text)


@pytest.mark.parametrize("action", [b"", b"PING", b"ping ", b"consume", b"\xff\x00", b"x" * 1000])
def test_an_unknown_action_is_refused(action: bytes) -> None:
    reason, text = refusal_of([b"100", action])
    assert reason == "action"
    assert text.startswith("unknown action: frame 1 is '")
    assert len(text) < 220


def test_what_operators_ask_for_is_of_1_2_only() -> None:
    assert read_request([b"120", b"status"], RULES) == Status(120)
    text = "unknown action: status is of version 120, frame 0 is 110"
    assert refusal_of([b"110", b"status"]) == ("action", text)


@pytest.mark.parametrize("action", ["stop", "restart"])
def test_stop_and_restart_are_refused_unless_they_are_allowed(action: str) -> None:
    frames = [b"120", action.encode()]
    assert read_request(frames, Rules(controls=frozenset({action}))) == Control(120, action)
    assert refusal_of(frames) == ("control", f"unknown action: {action} is not allowed here")


def test_status_is_refused_where_it_is_not_allowed_and_a_ping_is_not() -> None:
    rules = Rules(controls=frozenset())
    assert refusal_of([b"120", b"status"], rules) == ("control", "unknown action: status is not allowed here")
    assert read_request([b"120", b"ping"], rules) == Ping(120)


# rpc


def test_declaring_and_deleting_an_exchange_frame_by_frame() -> None:
    declare = Rpc(version=100, broker="rabbit-1", action="exchange.declare", name="orders", type="topic")
    assert read_request(DECLARE, RULES) == declare
    delete = Rpc(version=100, broker="rabbit-1", action="exchange.delete", name="orders")
    assert read_request(DELETE, RULES) == delete


@pytest.mark.parametrize("version", [100, 110, 120])
def test_an_empty_broker_is_all_brokers(version: int) -> None:
    request = read_request(with_frames(DELETE, {0: b"%d" % version, 2: b""}), RULES)
    assert request == Rpc(version=version, broker="", action="exchange.delete", name="orders")


def test_frames_behind_the_third_of_an_rpc_are_not_empty() -> None:
    begin = "malformed rpc request: frame"
    assert refusal_of(with_frames(DECLARE, {4: b""})) == ("empty", f"{begin} 4, name, is empty")
    assert refusal_of(with_frames(DECLARE, {5: b""})) == ("empty", f"{begin} 5, type, is empty")
    assert refusal_of(with_frames(DELETE, {4: b""})) == ("empty", f"{begin} 4, name, is empty")


@pytest.mark.parametrize("action", [b"", b"queue.declare", b"exchange.declar", b"Exchange.declare"])
def test_another_rpc_is_refused(action: bytes) -> None:
    reason, text = refusal_of(with_frames(DECLARE, {3: action}))
    assert reason == "action"
    known = "exchange.declare or exchange.delete"
    assert text == f"malformed rpc request: frame 3, action, is '{action.decode()}', not {known}"


# Texts and numbers of any kind

TEXTS: dict[str, tuple[Callable[[bytes], list[bytes]], str]] = {
    "exchange": (lambda text: with_frames(ROUND_ROBIN_1_0, {3: text}), "publishing request: frame 3"),
    "routing key": (lambda text: with_frames(REDUNDANT_1_1, {5: text}), "publishing request: frame 5"),
    "content_type": (lambda text: with_frames(ROUND_ROBIN_1_1, {8: text}), "publishing request: frame 8"),
    "cluster_id": (lambda text: with_frames(REDUNDANT_1_1, {20: text}), "publishing request: frame 20"),
    "header key": (lambda text: with_headers(ROUND_ROBIN_1_1, b"2", [text, b""]), "publishing request: frame 21"),
    "broker": (lambda text: with_frames(DELETE, {2: text}), "rpc request: frame 2"),
    "name": (lambda text: with_frames(DELETE, {4: text}), "rpc request: frame 4"),
    "type": (lambda text: with_frames(DECLARE, {5: text}), "rpc request: frame 5"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_utf_8_without_nul_and_as_long_as_amqp_can_say(name: str) -> None:
    make, place = TEXTS[name]
    begin = f"malformed {place}, {name},"
    assert is_taken(make(b"\xc3\xa4" * 127 + b"x"))
    assert refusal_of(make(b"x" * 256)) == ("text", f"{begin} has 256 bytes, {MAX_TEXT_BYTES} are allowed")
    assert refusal_of(make(b"ab\xff")) == ("text", f"{begin} is no UTF-8 at byte 2")
    assert refusal_of(make(b"\xc3\xa4\0")) == ("text", f"{begin} has a NUL at byte 2")


def test_a_frame_that_never_ends_is_neither_read_nor_repeated() -> None:
    digits = b"1" * 1_000_000
    for frames in (
        [digits, b"ping"],
        [b"100", digits],
        with_frames(REDUNDANT_1_0, {2: digits}),
        with_frames(REDUNDANT_1_0, {3: digits}),
        with_frames(REDUNDANT_1_0, {4: digits}),
        with_frames(ROUND_ROBIN_1_1, {5: digits}),
        with_frames(ROUND_ROBIN_1_1, {7: digits}),
        with_frames(ROUND_ROBIN_1_1, {20: digits}),
        with_frames(DECLARE, {3: digits}),
    ):
        assert len(refusal_of(frames)[1]) < 200


# Real programs


@pytest.mark.parametrize("name", SENT_BY_CLIENTS)
def test_what_real_clients_send_is_taken_and_written_as_they_do(name: str) -> None:
    frames = SENT_BY_CLIENTS[name]
    request = read_request(frames, ALL_CONTROLS)
    if name == "publish with two AMQP headers":
        assert isinstance(request, Publish)
        assert request.headers == (("prop_1", b"prop1"), ("prop_2", b"prop2"))
        assert request.quirks == (HEADER_PAIRS,)
        assert encode_request(request) == [*frames[:20], b"4", *frames[21:]]
    else:
        assert encode_request(request) == frames


# What samd takes and we do not, and the other way round, and what we say to it.
UNLIKE_SAMD = {
    "ping with extra frames": "malformed request: 4 frames, ping has 2",
    "version 100 ping (RFC01)": "",
    "version with leading blank": "wrong protocol version: frame 0 is ' 120', spoken here: 100, 110, 120",
    "round robin, empty payload": "",
    "round robin, one frame too many": "malformed publishing request: 23 frames, with a header count of 0 it has 22",
    "redundant -1": "malformed publishing request: frame 3, min. acknowledged, is '-1', not 1 to 2147483647",
    "rpc exchange.declare with an extra frame": "malformed rpc request: 7 frames, exchange.declare has 6",
    "options count 11 (last: samd asserts)": "malformed publishing request: 21 frames, a round robin request of 1.1"
    " has at least 22",
}


@pytest.mark.parametrize("exchange", ANSWERED_BY_SAMD, ids=lambda exchange: exchange.name)
def test_what_samd_answers_is_answered_but_where_it_breaks_the_documents(exchange: Exchange) -> None:
    try:
        read_request(exchange.request, ALL_CONTROLS)
        text = ""
    except Refused as refused:
        text = refused.text
    if exchange.name in UNLIKE_SAMD:
        assert text == UNLIKE_SAMD[exchange.name]
        assert exchange.reply is None or (exchange.reply[0] == b"0") == bool(text)
    else:
        assert exchange.reply is not None
        assert exchange.reply == ([b"-1", text.split(":")[0].encode()] if text else [b"0", b""])


def test_a_version_of_1_0_makes_the_short_form_good() -> None:
    """What samd refuses as 1.2, and we as well, is a request of 1.0."""
    short = next(each.request for each in ANSWERED_BY_SAMD if each.name.startswith("round robin 1.0 form"))
    assert not is_taken(short)
    assert is_taken(with_frames(short, {0: b"100"}))


# Our own client


@pytest.mark.parametrize("form", [form for form in FORMS if not form.endswith("with 100")])
def test_our_client_writes_the_frames_of_the_documents(form: str) -> None:
    frames, _ = FORMS[form]
    assert encode_request(read_request(frames, ALL_CONTROLS)) == frames


def test_our_client_writes_1_0_for_what_1_0_can_say() -> None:
    assert encode_request(publish_of(FORMS["round robin 1.1 with 100"][0])) == ROUND_ROBIN_1_0
    assert encode_request(publish_of(FORMS["redundant 1.1 with 100"][0])) == REDUNDANT_1_0


def test_each_thing_that_1_0_cannot_say_is_written_as_1_1_has_it() -> None:
    for version in (b"100", b"110", b"120"):
        plain = with_frames(REDUNDANT_1_1, {0: version})
        for frames in (
            with_frames(plain, {6: b"1"}),
            with_frames(plain, {7: b"1"}),
            with_options(plain, [b"a", *[b""] * 10, b"z"]),
            with_headers(plain, b"2", [b"k", b"\xff"]),
        ):
            assert encode_request(publish_of(frames)) == frames


@pytest.mark.parametrize(
    "request_",
    [
        Rpc(version=110, broker="\udcff", action="exchange.delete", name="x"),
        Publish(
            version=110,
            distribution="round robin",
            acks_n=1,
            exchange="x",
            routing_key="\ud800",
            options={},
            headers=(),
            payload=b"",
        ),
    ],
)
def test_text_that_has_no_bytes_is_refused_by_our_client(request_: Request) -> None:
    with pytest.raises(Refused, match=r"'\\ud\w{3}' cannot be written in UTF-8"):
        encode_request(request_)
