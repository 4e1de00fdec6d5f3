"""The consuming half of the feed: posts in, files there."""
