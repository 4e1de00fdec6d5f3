"""FastAPI in front of a service: an order comes by HTTP, its answer goes back, or why there is none.

python examples/fastapi_shop.py [URL]     without a URL it starts its own broker; pip install fastapi uvicorn
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from fastapi import FastAPI, HTTPException, Request

from client_sdk import JSON, Client, Rejected, Service, address, connect
from client_sdk.testing import local_broker

orders = Service("orders", codec=JSON)


@orders.request_response("create")
async def create_order(item: str) -> str:
    return f"{item} taken"


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Client]]:
    async with connect(app.state.url, service=orders, codec=JSON, timeout_s=5) as client:  # it serves, and calls
        yield {"client": client}


app = FastAPI(lifespan=lifespan)


@app.post("/{service}/{item}")
async def create(service: str, item: str, request: Request) -> str:
    client: Client = request.state.client
    try:
        return await client.request_response(address(service), item, route="create", returns=str)
    except Rejected as error:  # nothing was processed
        raise HTTPException(503, error.text) from error


async def main() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as app.state.url:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
            serving = asyncio.create_task(server.serve([listening]))
            async with aiohttp.ClientSession("http://{}:{}".format(*listening.getsockname())) as http:
                for path in ("/orders/book", "/mars/book"):
                    async with http.post(path) as answer:
                        print(path, answer.status, await answer.text())
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main())
