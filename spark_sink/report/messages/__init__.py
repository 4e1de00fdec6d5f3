"""What the report says of messages of the Samwise gateway: facts and sections."""
