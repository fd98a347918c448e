"""The worker: asks the shop for the price of each item, and prints the sum."""

from __future__ import annotations

import json
import os
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

if __name__ == "__main__":
    total = 0
    for item in sys.argv[1:]:
        try:
            with urlopen(f"{os.environ['SHOP_URL']}/prices/{item}", timeout=10) as answer:
                price = json.load(answer)["price"]
        except HTTPError as error:
            sys.exit(f"{item}: {json.load(error)['error']}")
        print(f"{item}: {price}")
        total += price
    print(f"total: {total}")
