"""Who can answer: the routes, their tags, and the choice among those that match. Knows nothing of connections."""
