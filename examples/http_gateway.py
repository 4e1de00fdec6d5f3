"""An HTTP gateway with aiohttp: POST /orders/create calls the route `create` of the service `orders`.

python examples/http_gateway.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys

import aiohttp
from aiohttp import web

from client_sdk import ApplicationError, Client, ClientError, DeadlineExceeded, Rejected, Service, address, connect
from client_sdk.testing import local_broker

STATUSES = {Rejected: 503, ApplicationError: 422, DeadlineExceeded: 504}  # 503: nothing was processed, try again
orders = Service("orders")


@orders.request_response("create")
async def create(data: bytes) -> bytes:
    if not data:
        raise ApplicationError("an order needs a name", word="empty-order")
    return b"order taken: " + data


def make_gateway(client: Client) -> web.Application:
    async def call(request: web.Request) -> web.Response:
        to, route, body = address(request.match_info["service"]), request.match_info["route"], await request.read()
        try:
            answer = await client.request_response(to, body, route=route, timeout_s=5)
        except ClientError as error:
            status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 502)
            return web.json_response({"error": error.word, "text": error.text}, status=status)
        return web.Response(body=answer.data)

    application = web.Application()
    application.router.add_post("/{service}/{route}", call)
    return application


async def main() -> None:
    async with (
        contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url,
        connect(url, service=orders),
        connect(url) as client,
    ):
        runner = web.AppRunner(make_gateway(client))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession("http://{}:{}".format(*runner.addresses[0])) as http:
            for path, body in (("/orders/create", b"a book"), ("/orders/create", b""), ("/mars/create", b"a rock")):
                async with http.post(path, data=body) as answer:
                    print(path, body, "->", answer.status, await answer.text())
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
