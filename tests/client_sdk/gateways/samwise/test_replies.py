"""Answers frame by frame, and what clients make of garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk.gateways.samwise.replies import read_reply, reply_frames
from client_sdk.gateways.samwise.values import Reply
from tests.client_sdk.gateways.samwise.vectors import ANSWERED_BY_SAMD, READ


@pytest.mark.parametrize("version", [100, 110])
def test_success_is_a_single_frame(version: int) -> None:
    """ "If <state> is 0, no further frames are expected." """
    assert reply_frames(Reply(True), version) == [b"0"]
    assert reply_frames(Reply(True, "numbers"), version) == [b"0"]


def test_success_has_two_frames_in_1_2() -> None:
    assert reply_frames(Reply(True), 120) == [b"0", b""]
    assert reply_frames(Reply(True, "2 stored\n"), 120) == [b"0", b"2 stored\n"]


@pytest.mark.parametrize("version", [0, 100, 110, 120])
def test_failure_has_a_second_frame_that_tells_the_problem(version: int) -> None:
    assert reply_frames(Reply(False, "unknown action: …"), version) == [b"-1", "unknown action: …".encode()]


def test_a_message_has_no_nul_and_is_utf_8() -> None:
    """A program in C would not read on behind a NUL."""
    assert reply_frames(Reply(False, "a\0b\udcff"), 100) == [b"-1", "a\ufffdb?".encode()]


def test_answers_of_samd_are_read_and_written() -> None:
    answers = [each.reply for each in ANSWERED_BY_SAMD if each.reply is not None]
    assert {len(frames) for frames in answers} == {2}
    for frames in answers:
        assert reply_frames(read_reply(frames), 120) == frames


def test_variants_that_clients_get_are_read() -> None:
    frames = [[frame.encode() for frame in variant["reply"]] for variant in READ["reply_variants"]]
    assert [read_reply(each) for each in frames] == [
        Reply(True),
        Reply(False, "malformed publishing request"),
        Reply(True),
    ]


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([], "malformed reply: 0 frames"),
        ([b""], "malformed reply: 1 frame, state ''"),
        ([b"-1"], "malformed reply: 1 frame, state '-1'"),
        ([b"0", b"", b""], "malformed reply: 3 frames, state '0'"),
        ([b"-1", b"why", b"more"], "malformed reply: 3 frames, state '-1'"),
        ([b"1"], "malformed reply: 1 frame, state '1'"),
        ([b"00", b""], "malformed reply: 2 frames, state '00'"),
        ([b" 0"], "malformed reply: 1 frame, state ' 0'"),
        ([b"\0\0\0\0"], r"malformed reply: 1 frame, state '\x00\x00\x00\x00'"),
        ([b"x" * 1000], f"malformed reply: 1 frame, state '{'x' * 40}'... of 1000 bytes"),
    ],
)
def test_a_malformed_reply_is_a_failure(frames: list[bytes], text: str) -> None:
    assert read_reply(frames) == Reply(False, text)


@given(st.lists(st.one_of(st.sampled_from([b"0", b"-1", b""]), st.binary(max_size=50)), max_size=4))
def test_whatever_comes_is_a_reply(frames: list[bytes]) -> None:
    reply = read_reply(frames)
    assert read_reply(reply_frames(reply, 120)) == Reply(reply.is_ok, reply.text.replace("\0", "\ufffd"))


@given(st.builds(Reply, st.booleans(), st.text()), st.sampled_from([100, 110, 120]))
def test_whatever_is_answered_is_read(reply: Reply, version: int) -> None:
    text = "" if reply.is_ok and version < 120 else reply.text.replace("\0", "\ufffd")
    assert read_reply(reply_frames(reply, version)) == Reply(reply.is_ok, text)
