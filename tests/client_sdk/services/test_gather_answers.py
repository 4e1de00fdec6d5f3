"""The words of a gather (D-57): what a service says of its answers is what the caller reads."""

import pytest

from client_sdk.errors import ApplicationError, NoHandler, OverLimit
from client_sdk.metadata import entry_bytes, read_entries
from client_sdk.payload import Payload
from client_sdk.services import gather_answers

ROUTE_ID = "00112233-4455-6677-8899-aabbccddeeff"
WHO = gather_answers.answered_by(bytes.fromhex(ROUTE_ID.replace("-", "")), "stöck")


def test_a_request_says_that_it_gathers_with_one_entry() -> None:
    found = read_entries(entry_bytes("a/b", b"x") + gather_answers.GATHER_ENTRY)
    assert found == [("a/b", b"x"), ("message/x.rsocket.broker.gather.v0", b"\x01")]
    assert gather_answers.is_gather(found)
    assert not gather_answers.is_gather([("message/x.rsocket.broker.gather.v0", b"\x02"), ("a/b", b"\x01")])


@pytest.mark.parametrize("metadata", [None, b"", b"no composite metadata"])
def test_an_answer_says_who_gave_it_and_keeps_the_handlers_metadata(metadata: bytes | None) -> None:
    answer = gather_answers.read_answer(gather_answers.answer_payload(WHO, b"3 left", metadata))
    assert (answer.data, answer.metadata, answer.route_id, answer.service, answer.error, answer.is_ok) == (
        b"3 left",
        metadata,
        ROUTE_ID,
        "stöck",
        None,
        True,
    )


@pytest.mark.parametrize(
    ("code", "message", "kind", "word", "text"),
    [
        (0x201, "sold-out: none", ApplicationError, "sold-out", "none"),
        (0x202, "over-limit: busy", OverLimit, "over-limit", "busy"),
        (0x204, "no-handler: none of that name", NoHandler, "no-handler", "none of that name"),
        (0x301, "own text", ApplicationError, "application-error", "own text"),
    ],
)
def test_a_failure_is_an_item_with_the_error_that_would_have_ended_all(
    code: int, message: str, kind: type, word: str, text: str
) -> None:
    answer = gather_answers.read_answer(gather_answers.failure_payload(WHO, code, message))
    assert type(answer.error) is kind
    assert (answer.data, answer.service, answer.route_id, answer.is_ok) == (b"", "stöck", ROUTE_ID, False)
    assert answer.error is not None
    assert (answer.error.word, answer.error.text, answer.error.code) == (word, text, code)


def test_the_text_of_a_failure_is_cut() -> None:
    answer = gather_answers.read_answer(gather_answers.failure_payload(WHO, 0x201, "x" * 10_000))
    assert answer.error is not None
    assert answer.error.text == "x" * gather_answers.MAX_FAILURE_BYTES


@pytest.mark.parametrize("metadata", [None, b"", b"rubbish", entry_bytes("a/b", b"c"), WHO[:-1]])
def test_an_item_that_is_not_marked_is_an_answer_of_nobody_knows_whom(metadata: bytes | None) -> None:
    answer = gather_answers.read_answer(Payload(b"x", metadata))
    assert (answer.data, answer.metadata, answer.route_id, answer.service, answer.error) == (
        b"x",
        metadata,
        "",
        "",
        None,
    )


@pytest.mark.parametrize("size", range(WHO.index(b"\x01\x00\x11"), len(WHO)))
def test_a_mark_or_a_failure_that_breaks_off_breaks_nothing(size: int) -> None:
    head = WHO.index(b"\x01\x00\x11")
    content = WHO[head:size]
    mime = "message/x.rsocket.broker.answered-by.v0"
    answer = gather_answers.read_answer(
        Payload(b"x", entry_bytes(mime, content) + entry_bytes(gather_answers.FAILED_MIME, b"\x01\0\0"))
    )
    assert (answer.data, answer.error) == (b"x", None)
    assert answer.service in ("", *("stöck".encode()[:n].decode("utf-8", "replace") for n in range(7)))
