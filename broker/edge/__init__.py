"""The core's hands: sockets, timers, processes. asyncio lives here and nowhere below."""
