"""One tree of errors: every word that a broker says has its place, and says what to do."""

import pytest

from client_sdk.errors import (
    CANCELED_WORDS,
    CONNECTION_ADVICE,
    INVALID_WORDS,
    REJECTED_WORDS,
    ApplicationError,
    BadRequest,
    Canceled,
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    NotConnected,
    Rejected,
    SetupRejected,
    TooLate,
    error_of,
)
from rsocket_wire.errors import CANCELED, CODE_WORDS, INVALID, REJECTED

TABLES = {REJECTED: REJECTED_WORDS, CANCELED: CANCELED_WORDS, INVALID: INVALID_WORDS}
BASES = {REJECTED: Rejected, CANCELED: Canceled, INVALID: BadRequest}


def tree(root: type[ClientError]) -> list[type[ClientError]]:
    return [root, *(each for child in root.__subclasses__() for each in tree(child))]


@pytest.mark.parametrize("word", CODE_WORDS)
def test_every_word_of_the_broker_has_a_class_or_an_advice_of_its_own(word: str) -> None:
    code = CODE_WORDS[word][0]
    if code in TABLES:
        assert type(error_of(code, f"{word}: why")) is TABLES[code][word]
    else:
        assert CONNECTION_ADVICE[word]


@pytest.mark.parametrize("code", TABLES)
def test_an_error_keeps_its_word_its_text_and_its_code(code: int) -> None:
    for word in [*TABLES[code], "a-word-of-tomorrow"]:
        error = error_of(code, f"{word}: 3 of them")
        assert (error.word, error.text, error.code) == (word, "3 of them", code)
        assert isinstance(error, (BASES[code], DeadlineExceeded))
        assert str(error) == f"{word}: 3 of them ({error.advice})"


def test_every_class_says_what_to_do() -> None:
    """But for what the service itself says, and for what nobody understands."""
    silent = [kind for kind in tree(ClientError) if not kind("x").advice]
    assert silent == [ClientError, ApplicationError]


def test_a_retry_is_safe_exactly_where_nothing_was_processed() -> None:
    safe = {kind for kind in tree(ClientError) if kind.is_retry_safe}
    assert safe == ({*tree(Rejected), NotConnected} - {TooLate})
    assert not ConnectionLost("x").is_retry_safe


def test_deadlines_are_timeouts_whoever_kept_the_time() -> None:
    for error in (DeadlineExceeded("x"), error_of(CANCELED, "deadline: x"), error_of(REJECTED, "deadline: x")):
        assert isinstance(error, TimeoutError)


def test_a_call_that_was_not_sent_says_so_whatever_ended_the_connection() -> None:
    for word in ("", *CONNECTION_ADVICE):
        assert "nothing was sent" in str(NotConnected("x", word=word))


def test_a_refused_setup_says_whether_it_may_be_tried_again() -> None:
    assert [word for word in CODE_WORDS if SetupRejected("x", word=word).is_transient] == [
        "over-limit",
        "draining",
        "setup-timeout",
        "token-in-use",
        "broker-stopped",
    ]
