"""Who is connected: sessions and routes of connections, their limits, their drains and their end."""
