import copy
import inspect
import pickle

import pytest

from client_sdk import Answer, Payload, Service
from client_sdk.payload import Received


def test_a_missing_name_is_said_with_what_there_is() -> None:
    with pytest.raises(
        AttributeError, match=r"'Answer' object has no attribute 'decode'; an Answer has is_ok, value"
    ) as told:
        Answer(b"3", None, "", "stock", None).decode()  # type: ignore[attr-defined]
    assert (told.value.name, told.value.obj) == ("decode", None)  # no proposal of Python's
    with pytest.raises(AttributeError, match=r"'request_respons'; did you mean request_response\?$"):
        Service("orders").request_respons()  # type: ignore[attr-defined]


def test_what_asks_for_attributes_finds_none() -> None:
    answer = Answer(b"3", None, "", "stock", None)
    assert pickle.loads(pickle.dumps(answer)).data == copy.copy(answer).data == b"3"
    assert not hasattr(answer, "decode")
    with pytest.raises(AttributeError, match=r"has no attribute '_none'$"):
        answer._none  # type: ignore[attr-defined]  # noqa: B018


def test_a_payload_that_has_arrived_is_one_of_rsocket_py() -> None:
    received = Received(b"3", b"left")
    assert isinstance(received, Payload)
    assert received == Payload(b"3", b"left") == received
    assert received != Payload(b"3", None)
    for other in (pickle.loads(pickle.dumps(received)), copy.copy(received), copy.deepcopy(received)):
        assert (type(other), other) == (Payload, received)
    assert repr(received) == repr(Payload(b"3", b"left"))
    assert not hasattr(received, "decode")
    assert dict(inspect.getmembers(received))["data"] == b"3"
    with pytest.raises(TypeError, match=r"a Payload is no bytes and no text: write payload\.data"):
        len(received)  # type: ignore[arg-type]
