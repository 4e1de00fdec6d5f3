"""What to write instead of a command line that is wrong."""
