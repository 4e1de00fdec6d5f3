"""docs/conformance-samwise.md is held to the sources, as docs/conformance.md is: each sentence of both has a row."""

from dataclasses import replace

from tests.client_sdk.gateways.samwise.scripts import ROUND_ROBIN_1_0, publish_of
from tests.conformance.table import COLUMNS, ROOT, dangling_in, mistakes_of, rows_of

PAGE = ROOT / "docs/conformance-samwise.md"

# Every sentence and every line of a table that says what is or must be, in the order of the documents. Lines of tables
# are without the blanks that align them; values of more than one line stand in one.
SENTENCES_1_0 = [
    "The samwise protocol describes how clients can communicate with running samwise daemons (samd) over"
    " TCP/IPC or directly when using libsam.",
    "Every samd instance offers an endpoint to pass either publishing requests or rpc calls to.",
    "The libsam offers a function to accept messages. These are then distributed to all or some connected brokers.",
    "Since it is not important if samd or libsam get the data (since samd passes the message on to libsam),"
    ' in the scope of this document clients simply communicate with "samwise".',
    "All types correspond to the c types used by libzmq and czmq.",
    "This document describes how clients written in arbitrary languages can pass data in a meaningful way to samwise.",
    "They MUST speak the ZeroMQ Message Transport Protocol (http://rfc.zeromq.org/spec:23) to pass"
    " multi-framed data around.",
    "Publishing messages to 1..n brokers",
    "Making rpc calls to 1..n brokers",
    "Receiving meaningful answers from samwise",
    "This document describes version 1.0 of the samwise protocol. The version number consists of a major (1)"
    " and minor (0) version number.",
    "Future extensions of the protocol must increment the major version number for changes breaking older"
    " implementations.",
    "Client-samwise communication behaves in a strict request/response cycle.",
    "The client initiates the communication by sending a request message containing one of the layouts"
    " described later.",
    "It MUST then wait for samwise to answer.",
    "The reply message describes how successful handing over the message to samwise was.",
    "Samwise offers one or more endpoints for 1..n clients.",
    "It MUST reply to all client requests eventually.",
    "If a message is malformed by having an unexpected frame count, the message MUST NOT be accepted by samwise.",
    "A client receiving a malformed message from samwise SHOULD assume that the request has failed.",
    "A message passed to samwise is parsed based on the frames it is split into.",
    "It must be examined if this approach offers enough performance or if the number of heap allocations per"
    " message are to big.",
    "In future versions of the protocol, data may be bundled into some parse-able data format (like protocol"
    " buffers) to reduce the amount of heap allocations.",
    "A message MUST consist of at least the following two frames:",
    "0 | protocol version | integer | x > 0",
    '1 | action | char * | "publish" or "rpc" or "ping"',
    "This is a plain number describing the samwise protocol version.",
    "Based on this number samwise MAY refuse requests from clients implementing a too old protocol.",
    "protocol version = major * 100 + minor",
    "The action property describes what the clients intention is and what the successive frames contain.",
    "Publish a message to 1..n brokers.",
    "0 | protocol version | integer | 100",
    '1 | action | char * | "publish"',
    '2 | distribution | char * | "round robin" or "redundant"',
    'The distribution strategy which is either "redundant" or "round robin".',
    'If "redundant" is provided as an option, another frame is expected to follow containing a number how'
    " many brokers must acknowledge the message:",
    "0 | protocol version | integer | 100",
    '1 | action | char * | "publish"',
    '2 | distribution | char * | "redundant"',
    "3 | min. acknowledged | integer | x > 0",
    "The successive frames are message backend specific. A description for RabbitMQ AMQP publishing requests follows.",
    "This is used to send control commands to 1..n brokers.",
    "0 | protocol version | integer | 100",
    '1 | action | char * | "rpc"',
    "2 | broker | char * | -",
    "Frame 2 determines to which broker the rpc call must be send to.",
    "If the frame is empty, the rpc call gets delegated to all brokers.",
    "This request SHALL not have any more frames.",
    "It is used to determine if samwise is reachable, accepts the protocol and answers properly.",
    "Except for some, frames MAY be empty.",
    "This is used to allow defaults to be set.",
    "Providing the defaults to samwise instances is topic of another specification.",
    "Samwise handles applying the defaults for empty frames.",
    "The following frames SHALL not be empty: - protocol version (frame 0)",
    "- rpc frames > 3",
    "The first version of samwise MUST accept publishing requests to pass on to RabbitMQ brokers speaking AMQP.",
    'AMQP specific data comes after the 2nd frame for "round robin" distribution or 3rd frame for "redundant"'
    " publishing (nth frame).",
    "n | exchange | char * | -",
    "n + 1 | routing key | char * | -",
    "n + 2 | payload | byte * | -",
    "AMQP specific rpc request data comes after the 3rd frame.",
    "0 | version | integer | 100",
    '1 | action | char * | "rpc"',
    "2 | broker | char * | -",
    '3 | action | char * | "exchange.declare" or "exchange.delete"',
    "The successive frames are options for the rpc class.",
    'For "exchange.declare" two frames and "exchange.delete" one frame is expected containing the exchange options.',
    '3 | action | char * | "exchange.declare"',
    "4 | name | char * | -",
    "5 | type | char * | -",
    '3 | action | char * | "exchange.delete"',
    "4 | name | char * | -",
    "The client gets informed about the success of its publishing request once after sending a request.",
    "This reply does not contain any information about the actual publishing to the message backends, but the"
    " success or failure of samwise to accept the request.",
    "In future versions of the protocol, additional information about the current state of the backends MAY"
    " be provided.",
    "0 | state | integer | 0 or -1",
    "If <state> is 0, no further frames are expected.",
    "If <state> is -1, another frame follows, describing the problem.",
    "Future versions of this protocol may provide more frames (containing for example error codes), to allow"
    " a client handling errors more gracefully.",
    "0 | state | integer | -1",
    "1 | message | char * | -",
    "Since it internally also uses ZeroMQ for comunication, a message can be seen as a stack where every part"
    " of the system pops all information it needs before passing it on.",
]
SENTENCES_1_1 = [
    "This is an extension of the samwise protocol 1.0 described in rfc 1 (protocol.1.0).",
    "It introduces aggregate types describing contigous collection of frames and extends RabbitMQ publishing"
    " requests to be able to hand over extended options.",
    "All types correspond to the c types used by libzmq and czmq.",
    "Define a format to send contiguous frame collections",
    "Extend format for RabbitMQ publishing requests to hand over extended options",
    "It shall be possible to pass a set of frames where the count is not known beforehand.",
    "To ease protocol checks, this set of frames must be seen as a logical unit.",
    "Every frame sequence starts with an integer defining how many frames follow.",
    "n | frame count | integer | x >= 0",
    "n+1 | first frame | char * | -",
    "n+x | x'th frame | char * | -",
    "This solution is easy to implement and fullfills the formerly described requirements. For protocol"
    " checks, the value of x can be used to skip the remaining frames before continuing analyzing succeeding"
    " frames.",
    "Key/value pairs can be mapped as alternating frames where the n+1st, n+3rd, n+5'th... frames are the"
    " keys and the other frames are their values.",
    "The RabbitMQ publishing requests described in version 1.0 of the samwise protocol must be extended to"
    " allow passing over additional options and AMQP frame headers.",
    "0 | protocol version | integer | 110",
    '1 | action | char * | "publish"',
    '2 | distribution | char * | "round robin"',
    "0 | protocol version | integer | 100",
    '1 | action | char * | "publish"',
    '2 | distribution | char * | "redundant"',
    "3 | min. acknowledged | integer | x > 0",
    "The following frames describe fixed publishing options:",
    "n + 1 | exchange | char * | -",
    "n + 2 | routing key | char * | -",
    "n + 3 | mandatory | int | -",
    "n + 4 | immediate | int | -",
    "Afterwards a contiguous block of options follows:",
    "n + 5 | option count | int | 12",
    "n + 6 | content_type | char * | -",
    "n + 7 | content_encoding | char * | -",
    "n + 8 | delivery_mode | char * | -",
    "n + 9 | priority | char * | -",
    "n + 10 | correlation_id | char * | -",
    "n + 11 | reply_to | char * | -",
    "n + 12 | expiration | char * | -",
    "n + 13 | message_id | char * | -",
    "n + 14 | type | char * | -",
    "n + 15 | user_id | char * | -",
    "n + 16 | app_id | char * | -",
    "n + 17 | cluster_id | char * | -",
    "After the options comes a variable number of AMQP headers that can contain arbitrary values.",
    "They consist of alternating key/value pairs:",
    "n + 18 | header count | int | -",
    "n + 19 | key | char * | -",
    "n + 20 | value | char * | -",
    "m - 2 | key | char * | -",
    "m - 1 | value | char * | -",
    "And finally, the payload gets provided:",
    "m | payload | byte * | -",
]


def test_every_sentence_has_its_row_and_every_row_its_tests() -> None:
    sentences = [each.replace("|", "\\|") for each in (*SENTENCES_1_0, *SENTENCES_1_1)]
    page = PAGE.read_text()
    assert mistakes_of(page, sentences, {}) == []
    assert [row[1].strip("“”") for row in rows_of(page)] == sentences
    assert all(len(row) == len(COLUMNS) for row in rows_of(page))


def test_decisions_and_rows_that_are_named_exist() -> None:
    assert dangling_in(PAGE.read_text()) == set()


def test_a_row_stands_under_the_document_that_it_is_of() -> None:
    """Ids of 1.0 begin with S, those of 1.1, which extends it, with E."""
    letters = "".join(row[0][0] for row in rows_of(PAGE.read_text()))
    assert letters == "S" * len(SENTENCES_1_0) + "E" * len(SENTENCES_1_1)


def test_the_messages_that_are_shown_are_the_same() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("    1")]
    first, second = [[cell.strip().encode() for cell in line.split("|")] for line in lines]
    assert first == ROUND_ROBIN_1_0
    assert replace(publish_of(second), version=100) == publish_of(first)
