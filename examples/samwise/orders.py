"""The service that gets the messages of send.c and send.sh, and writes each order down once.

python examples/samwise/orders.py [URL] [DATABASE]     default: tcp://127.0.0.1:7878 and orders.db

A message may come again, for instance when this program ends before its answer has arrived. It has the same id then:
order and id are written in one transaction, and an id that is there already changes nothing.
"""

import json
import sqlite3
import sys

from client_sdk import Request, Service, run

MESSAGE = "application/x-samwise-message+json"  # what the gateway says beside the payload

orders = Service("orders")  # the exchange
database = sqlite3.connect(sys.argv[2] if sys.argv[2:] else "orders.db")
database.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, shop TEXT, item TEXT)")


@orders.request_response("create")  # the routing key
async def create(request: Request) -> bytes:
    message = json.loads(request.entry(MESSAGE) or b"{}")
    item = request.data.decode()
    order = (message["x-samwise-id"], message["headers"].get("shop", ""), item)
    with database:
        is_new = database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", order).rowcount
    print("new:" if is_new else "again:", item, flush=True)
    return b""  # acknowledged: the gateway forgets the message. After an exception it comes again


if __name__ == "__main__":
    run(sys.argv[1] if sys.argv[1:] else "tcp://127.0.0.1:7878", orders)
