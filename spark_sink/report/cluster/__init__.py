"""What the report says of brokers, their runs and what is missing of them."""
