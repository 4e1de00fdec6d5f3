"""One connection on asyncio: the hands of the machine, the links under it, and where they lead."""
