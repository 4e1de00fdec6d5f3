"""Errors of rsocket-py and ours, each as the other.

    ours, as a caller of rsocket-py sees it                     theirs, raised in a handler, as the caller gets it
    ApplicationError with 0x201    RuntimeError(text)           RSocketProtocolError        its code and text
    any other code                 RSocketProtocolError(code)   any other exception         APPLICATION_ERROR, its text
    not connected, lost            RSocketProtocolError(CONNECTION_ERROR)

`__cause__` of what a caller gets is our error. Sources: `error_frame_to_exception` and `exception_to_error_frame` of
rsocket-py 0.4.20; RSocket protocol, "Error Codes".
"""

from typing import Any, Final

from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError

from client_sdk import errors
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED, INVALID, REJECTED

# Other codes that may be on a request's stream, and the word of a text that begins with none.
_WORDS: Final = {REJECTED: "rejected", CANCELED: "canceled", INVALID: "bad-request"}
# Of texts that had none, most likely.
_UNSAID: Final = ("", errors.ApplicationError.default_word, errors.SetupRejected.default_word, *_WORDS.values())


class OwnCode(int):
    """An application's own error code, 0x301 on, with the two attributes that users of their ErrorCode read.

    >>> OwnCode(0x301).name, OwnCode(0x301).value, OwnCode(0x301) == 0x301
    ('APPLICATION_0x301', 769, True)
    """

    @property
    def name(self) -> str:
        return f"APPLICATION_{int(self):#x}"

    @property
    def value(self) -> int:
        return int(self)


def code_of(code: int) -> Any:
    """`rsocket.error_codes.ErrorCode` where it has one, else an OwnCode."""
    try:
        return ErrorCode(code)
    except ValueError:
        return OwnCode(code)


def as_theirs(error: BaseException) -> BaseException:
    """What a program written for rsocket-py catches; an exception that is not ours stays as it is."""
    if not isinstance(error, errors.ClientError):
        return error
    text = error.text if error.word in _UNSAID else f"{error.word}: {error.text}"
    if error.code == APPLICATION_ERROR:
        theirs: Exception = RuntimeError(text)
    elif isinstance(error, errors.ConnectionLost):
        theirs = RSocketProtocolError(ErrorCode.CONNECTION_ERROR, data=text)
    else:
        code = error.code or (INVALID if isinstance(error, errors.BadRequest) else CANCELED)
        theirs = RSocketProtocolError(code_of(code), data=text)
    theirs.__cause__ = error
    return theirs


def as_ours(error: Exception) -> Exception:
    """What our engine answers a caller with, for what one of their handlers or Publishers raised."""
    if isinstance(error, (errors.ApplicationError, errors.Refused)):
        return error
    if isinstance(error, RSocketProtocolError):
        code, text = int(error.error_code), str(error.data or "")
        if errors.FIRST_APPLICATION_CODE <= code <= errors.LAST_APPLICATION_CODE:
            return errors.ApplicationError(text, code=code)
        if code in _WORDS:
            word, text = errors.split_word(text)
            return errors.Refused(word or _WORDS[code], text, code)
        return errors.ApplicationError(text or str(error))
    return errors.ApplicationError(str(error) or type(error).__name__)
