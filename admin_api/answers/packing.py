"""Answers packed with gzip for those who take it: a list of 1000 routes becomes a thirtieth.

Decides which answers are packed. Only what is a success, text and long enough to gain by it; never a file, which is
packed already or asked for by ranges of its bytes, and no problem. Nothing secret stands in an answer, tokens and keys
least of all, and browsers send no credentials to this API by themselves: so the length of a packed answer, which tells
of what is alike in it, tells nothing of them ("BREACH"). Packed bodies of requests are read by aiohttp, whose bound of
`bodies.MAX_BODY_BYTES` is one of what they become.
"""

import asyncio
import zlib
from typing import Final

from aiohttp import web

from admin_api.errors import PROBLEM_TYPE, Handler

GZIP: Final = "gzip"
MIN_BYTES: Final = 1400  # shorter ones are one packet anyhow
LEVEL: Final = 1  # 3 ms of CPU for 1 MB of routes; 6 takes 7 ms for a length that is 0.7 of this one
IN_THREAD_BYTES: Final = 64 * 1024  # longer ones are packed beside the broker's thread
_WINDOW: Final = zlib.MAX_WBITS | 16  # of gzip, and not of zlib


@web.middleware
async def pack(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Packs what is answered behind it."""
    response = await handler(request)
    if not isinstance(response, web.Response) or response.status != 200 or response.content_type == PROBLEM_TYPE:
        return response
    body = response.body
    if not isinstance(body, bytes) or len(body) < MIN_BYTES:
        return response
    response.headers["Vary"] = "Accept-Encoding"
    if "Content-Encoding" not in response.headers and takes_gzip(request):
        response.body = await packed(body)
        response.headers["Content-Encoding"] = GZIP
    return response


async def packed(body: bytes) -> bytes:
    """The same, packed."""
    return await asyncio.to_thread(_packed, body) if len(body) > IN_THREAD_BYTES else _packed(body)


def takes_gzip(request: web.Request) -> bool:
    """Whether the caller says that it takes it, and not that it does not (RFC 9110 section 12.5.3)."""
    for text in request.headers.getall("Accept-Encoding", ()):
        for each in text.split(","):
            name, _, rest = each.partition(";")
            if name.strip().lower() == GZIP:
                return rest.strip().lower().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _packed(body: bytes) -> bytes:
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _WINDOW)
    return compressor.compress(body) + compressor.flush()
