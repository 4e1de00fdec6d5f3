"""What the report says of requests: facts, sections and plots."""
