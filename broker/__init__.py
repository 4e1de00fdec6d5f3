"""rsocket-broker: forwards RSocket requests between connections that say who they are with tags."""

VERSION = "0.1.0"
