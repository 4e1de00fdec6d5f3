"""What the report says of routes: facts, sections and plots."""
