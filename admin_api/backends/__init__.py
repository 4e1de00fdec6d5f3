"""What the endpoints ask: one broker, or the workers behind one supervisor."""
