"""spark_sink.feed.transports.settings: what a source and a sink are where nothing else is said."""

from spark_sink.feed.transports.settings import SinkSettings, SourceSettings


def test_all_posts_of_the_exchange_from_which_all_may_read_are_taken() -> None:
    source = SourceSettings(name="in", url="amqp://h")
    assert (source.exchange, source.patterns) == ("xpublic", ("v03.post.#",))
    assert SinkSettings(name="out", url="amqp://h").exchange == "xpublic"


def test_rsocket_prefetches_more_than_others_unless_it_is_told_how_many() -> None:
    found = [SourceSettings(name="in", url=f"{scheme}://h").prefetch_n for scheme in ("tcp", "wss", "amqp", "mqtts")]
    assert found == [128, 128, 25, 25]
    assert SourceSettings(name="in", url="tcp://h", prefetch=7).prefetch_n == 7
