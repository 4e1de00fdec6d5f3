"""What verifies credentials for the core: passwords, tokens and the keys of those who sign them."""
