"""What happened, in order: the events of the broker, from its start on."""
