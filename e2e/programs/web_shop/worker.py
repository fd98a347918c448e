"""The shop's worker: takes orders off the queue and delivers them."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ResponseError

from e2e.programs.web_shop.orders import QUEUE, connection

_GROUP = "workers"
_ABANDONED_MILLISECONDS = 3000


def main() -> None:
    """Deliver orders until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = Redis(**connection())
    while not stopping.is_set():
        try:
            for entry, order in take_orders(database):
                deliver(database, entry, order["number"])
        except Disconnected as error:
            print(f"no database: {error}", flush=True)
            stopping.wait(0.5)
    print("worker has stopped", flush=True)


def take_orders(database: Any) -> list[tuple[str, dict[str, str]]]:
    """Return orders that no other worker has, or that one had and did not deliver."""
    try:
        database.xgroup_create(QUEUE, _GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
    worker = socket.gethostname()
    abandoned = database.xautoclaim(QUEUE, _GROUP, worker, _ABANDONED_MILLISECONDS)[1]
    if abandoned:
        return list(abandoned)
    fresh = database.xreadgroup(_GROUP, worker, {QUEUE: ">"}, count=10, block=1000)
    return [entry for _, entries in fresh or () for entry in entries]


def deliver(database: Any, entry: str, number: str) -> None:
    """Mark an order as delivered, and remove it from the queue."""
    with database.pipeline(transaction=True) as all_of_it:
        all_of_it.hset(f"order:{number}", "state", "delivered")
        all_of_it.hset(f"order:{number}", "worker", socket.gethostname())
        all_of_it.xack(QUEUE, _GROUP, entry)
        all_of_it.execute()
    print(f"delivered order {number}", flush=True)


if __name__ == "__main__":
    main()
