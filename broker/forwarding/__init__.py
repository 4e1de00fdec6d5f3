"""A request in, frames out: splices, multicast, fragments, mime types. Frames pass with their stream id rewritten."""
