"""Runs one program of rsocket-py's tutorial as it is: run_tutorial.py server|theirs|ours PORT PROGRAM

All of them use port 6565. Here a server gets a free one instead, and says it in a line; a client goes to PORT.
"""

import asyncio
import gc
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

PORT = 6565


def main(role: str, port: int, program: str) -> None:
    look_up = socket.getaddrinfo

    def look_up_here(host: Any, wanted: Any, *more: Any, **named: Any) -> Any:
        if wanted != PORT:
            return look_up(host, wanted, *more, **named)
        found = look_up("127.0.0.1", port, *more, **named)
        return [each for each in found if each[0] == socket.AF_INET]

    vars(socket)["getaddrinfo"] = look_up_here
    sys.path[0] = str(Path(program).parent)
    if role == "ours":
        from client_sdk.rsocket_py.__main__ import main as run

        run([program])
        return
    if role == "server":
        gc.disable()  # nobody holds the tasks of their servers, and Python 3.14 collects them in the middle
        _say_ports()
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")


def _say_ports() -> None:
    create = asyncio.base_events.BaseEventLoop.create_server

    async def create_and_say(*all: Any, **named: Any) -> Any:
        server = await create(*all, **named)
        print(server.sockets[0].getsockname()[1], flush=True)
        return server

    asyncio.base_events.BaseEventLoop.create_server = create_and_say  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
