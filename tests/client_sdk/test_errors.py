"""One tree of errors: every word that a broker says has its place, and says what to do."""

import pytest

from broker.access.identities import KINDS
from client_sdk import errors
from rsocket_wire.errors import CANCELED, CODE_WORDS, INVALID, REJECTED

TABLES = {REJECTED: errors.REJECTED_WORDS, CANCELED: errors.CANCELED_WORDS, INVALID: errors.INVALID_WORDS}
BASES = {REJECTED: errors.Rejected, CANCELED: errors.Canceled, INVALID: errors.BadRequest}


def tree(root: type[errors.ClientError]) -> list[type[errors.ClientError]]:
    return [root, *(each for child in root.__subclasses__() for each in tree(child))]


@pytest.mark.parametrize("word", CODE_WORDS)
def test_every_word_of_the_broker_has_a_class_or_an_advice_of_its_own(word: str) -> None:
    code = CODE_WORDS[word][0]
    if code in TABLES:
        assert type(errors.error_of(code, f"{word}: why")) is TABLES[code][word]
    else:
        assert errors.CONNECTION_ADVICE[word]


@pytest.mark.parametrize("code", TABLES)
def test_an_error_keeps_its_word_its_text_and_its_code(code: int) -> None:
    for word in [*TABLES[code], "a-word-of-tomorrow"]:
        error = errors.error_of(code, f"{word}: 3 of them")
        assert (error.word, error.text, error.code) == (word, "3 of them", code)
        assert isinstance(error, (BASES[code], errors.DeadlineExceeded))
        assert str(error) == f"{word}: 3 of them ({error.advice})"


def test_every_class_says_what_to_do() -> None:
    """But for what the service itself says, and for what nobody understands."""
    own = (kind for kind in tree(errors.ClientError) if kind.__module__.startswith("client_sdk."))
    silent = [kind for kind in own if not kind("x").advice]
    assert silent == [errors.ClientError, errors.ApplicationError]


def test_a_retry_is_safe_exactly_where_nothing_was_processed() -> None:
    safe = {kind for kind in tree(errors.ClientError) if kind.is_retry_safe}
    assert safe == ({*tree(errors.Rejected), errors.NotConnected} - {errors.TooLate, errors.NotAllowed})
    assert not errors.ConnectionLost("x").is_retry_safe


def test_deadlines_are_timeouts_whoever_kept_the_time() -> None:
    for error in (
        errors.DeadlineExceeded("x"),
        errors.error_of(CANCELED, "deadline: x"),
        errors.error_of(REJECTED, "deadline: x"),
    ):
        assert isinstance(error, TimeoutError)


def test_a_call_that_was_not_sent_says_so_whatever_ended_the_connection() -> None:
    for word in ("", *errors.CONNECTION_ADVICE):
        assert "nothing was sent" in str(errors.NotConnected("x", word=word))


def test_a_refused_setup_says_whether_it_may_be_tried_again() -> None:
    assert [word for word in CODE_WORDS if errors.SetupRejected("x", word=word).is_transient] == [
        "over-limit",
        "draining",
        "setup-timeout",
        "token-in-use",
        "auth-unavailable",
        "broker-stopped",
    ]


def test_credentials_that_the_broker_does_not_accept_are_told_in_the_words_of_connect() -> None:
    assert set(errors.CONNECT_HOW) == set(KINDS)
    refused, none = "the credentials are not accepted", "the SETUP has no credentials, and the transport proves none"
    said = {
        f"{refused}; this broker accepts user": "connect with credentials=Password(name, password), not with a Token",
        f"{refused}; this broker accepts jwt or uid": (
            "connect with credentials=Token(token) or to a unix:// URL, not with a Password"
        ),
        f"{refused}; this broker accepts certificate": (
            "connect with a client certificate in ssl=, not with a Token or a Password"
        ),
        f"{none}; this broker accepts jwt": "connect with credentials=Token(token)",
        refused: errors.CONNECTION_ADVICE["unauthenticated"],
        f"{none}; this broker accepts badges": errors.CONNECTION_ADVICE["unauthenticated"],  # a newer one
    }
    assert {text: errors.Unauthenticated(text).advice for text in said} == said
