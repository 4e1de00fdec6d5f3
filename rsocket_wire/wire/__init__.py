"""Floor 0: bytes to values and back, for the frames of the RSocket Broker Specification and for router annotations.

    ints      big-endian numbers at an offset
    buffer    Reader and Writer: one field after another, with errors that name the field
    ids       16 bytes and their uuid text
    keys      well-known, extension and text keys
    tags      key/value maps
    frames    ROUTE_SETUP, ROUTE_ADD, ROUTE_REMOVE, BROKER_INFO, ADDRESS
    amqp      constructors of AMQP 1.0 values, and stepping over such values
    annotations  the router annotations that brokers put before a request's metadata

Knows nothing of connections, of composite metadata or of routing. What a peer can send is answered with a value or
with `InvalidFrame`, never with another exception; what our side wants to write and cannot is a `BrokerError`.
"""
