"""The shop's web application: takes orders and shows them."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from redis.asyncio import Redis
from redis.exceptions import RedisError

from e2e.programs.web_shop.orders import QUEUE, connection

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

SHOP = web.AppKey("shop", dict)
DATABASE = web.AppKey("database", Redis)
routes = web.RouteTableDef()


@routes.get("/")
async def show_shop(request: web.Request) -> web.Response:
    """Return the shop's name, its prices, and the pod that answers."""
    shop = request.app[SHOP]
    return web.json_response({**shop, "pod": socket.gethostname()})


@routes.post("/orders")
async def take_order(request: web.Request) -> web.Response:
    """Store an order, and queue it for a worker."""
    order = await request.json()
    price = request.app[SHOP]["prices"].get(order["item"])
    if price is None:
        return web.json_response({"error": f"there is no {order['item']}"}, status=422)
    database = request.app[DATABASE]
    number = await database.incr("orders")
    stored: Any = {
        "item": order["item"],
        "count": order["count"],
        "price": price,
        "state": "open",
    }
    async with database.pipeline(transaction=True) as both:
        both.hset(f"order:{number}", mapping=stored)
        both.xadd(QUEUE, {"number": number})
        await both.execute()
    return web.json_response({"number": number}, status=201)


@routes.get("/orders/{number}")
async def show_order(request: web.Request) -> web.Response:
    """Return an order with its state."""
    order = await request.app[DATABASE].hgetall(f"order:{request.match_info['number']}")
    return web.json_response(order, status=200 if order else 404)


@routes.get("/livez")
async def live(_request: web.Request) -> web.Response:
    """Answer the liveness probe."""
    return web.Response(text="ok")


@routes.get("/readyz")
async def ready(request: web.Request) -> web.Response:
    """Answer the readiness probe: the database has to answer."""
    await request.app[DATABASE].ping()
    return web.Response(text="ok")


@web.middleware
async def report_outage(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 503 while the database does not answer."""
    try:
        return await handler(request)
    except RedisError as error:
        return web.json_response({"error": f"database: {error}"}, status=503)


def main() -> None:
    """Serve until SIGTERM, then finish the requests that are being answered."""
    app = web.Application(middlewares=[report_outage])
    app[SHOP] = tomllib.loads(Path(os.environ["SHOP_CONFIG"]).read_text())
    app[DATABASE] = Redis(**connection())
    app.add_routes(routes)
    web.run_app(app, port=8080, shutdown_timeout=5)


if __name__ == "__main__":
    main()
