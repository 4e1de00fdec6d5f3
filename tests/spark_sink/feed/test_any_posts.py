"""Whatever comes as a post: read and forwarded as it came, or refused with a reason."""

from tests.fuzz.fuzz_posts import run


def test_whatever_comes_it_is_read_or_refused() -> None:
    """10^6 of them: `python -m tests.fuzz.fuzz_posts 1000000`."""
    read_n, refused_n = run(2_000, seed=7)
    assert min(read_n, refused_n) > 400
