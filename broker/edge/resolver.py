"""What a name stands for: addresses of brokers, and the hosts and ports of SRV records. Decides which URLs they are."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from broker.config.urls import Listen, PeerUrl

LOOKUP_S: Final = 5.0  # for one lookup; a server of names that is silent for so long is asked anew later
MAX_FOUND: Final = 256  # URLs of one name: more than a cluster has brokers


class Resolver:
    """The system's resolver, and for SRV records the name servers that it uses. Tests have one of their own."""

    def __init__(self, name_server: str = "", port: int = 53) -> None:
        """`name_server`: its address, in place of those of the system; for SRV records only."""
        self._name_server = name_server
        self._port = port

    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns every A and AAAA address of the host; OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(info[4][0]) for info in found]

    async def services(self, name: str) -> list[tuple[str, int]]:
        """Returns host and port of every SRV record of the name, those to be preferred first; OSError."""
        import dns.asyncresolver  # late: most brokers ask for no SRV record, and it takes 10 MB
        import dns.exception
        from dns.rdtypes.IN.SRV import SRV

        try:
            asked = dns.asyncresolver.Resolver(configure=not self._name_server)
            if self._name_server:
                asked.nameservers = [self._name_server]
                asked.port = self._port
            answer = await asked.resolve(name, "SRV", lifetime=LOOKUP_S)
        except dns.exception.DNSException as error:
            raise OSError(str(error)) from None
        records = [each for each in answer if isinstance(each, SRV)]
        records.sort(key=lambda each: (each.priority, -each.weight))
        return [(each.target.to_text(omit_final_dot=True), each.port) for each in records]


async def look_up(source: PeerUrl, resolver: Resolver) -> dict[str, str]:
    """Looks up brokers that the source names, MAX_FOUND at most: URL -> whose certificate must be there.

    OSError, TimeoutError after LOOKUP_S.
    """
    async with asyncio.timeout(LOOKUP_S):
        if source.finder == "srv":
            places = [(host, port, host) for host, port in await resolver.services(source.host)]
        else:
            addresses = await resolver.addresses(source.host, source.port)
            places = [(address, source.port, source.host) for address in addresses]
    found = {str(Listen(source.scheme, host, port)): name for host, port, name in places if host and port}
    return dict(list(found.items())[:MAX_FOUND])
