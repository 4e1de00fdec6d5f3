"""One request to all routes that match: branches, credit, and what each interaction model makes of the answers."""
