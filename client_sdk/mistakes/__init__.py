"""What a person has written that cannot work: a TypeError that says what to write, where Python says what is wrong."""
