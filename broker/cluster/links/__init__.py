"""Links to other brokers: whom to dial, who may become one, the proof, and ways that take no more for now."""
