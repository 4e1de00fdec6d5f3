"""What the report says of identities: facts and sections."""
