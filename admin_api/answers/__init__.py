"""What is done with answers before they are sent."""
