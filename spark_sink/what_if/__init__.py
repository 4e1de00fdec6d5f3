"""What would another balancer have done: recorded requests, replayed through the broker's own routing code."""
