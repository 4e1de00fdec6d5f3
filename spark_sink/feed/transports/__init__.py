"""How posts travel: RSocket, AMQP 0-9-1 and MQTT, each a Source and a Sink of `spark_sink.feed.transport`."""
