"""A client that sends requests to the shop one after another, and counts failures."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from urllib.request import urlopen


def main() -> None:
    """Ask the URL over new connections; print the counts so far twice a second.

    Failures count once the shop has answered for the first time.
    """
    (url,) = sys.argv[1:]
    pods: Counter[str] = Counter()
    failed: list[str] = []
    printed = 0.0
    while True:
        try:
            with urlopen(url, timeout=5) as answer:
                pods[json.load(answer)["pod"]] += 1
        except OSError as error:
            if pods:
                failed.append(str(error))
        if time.monotonic() > printed + 0.5:  # noqa: TID251 - a program of its own, not the plugin
            printed = time.monotonic()  # noqa: TID251
            print(json.dumps({"pods": pods, "failed": failed[:5]}), flush=True)
        time.sleep(0.005)  # noqa: TID251


if __name__ == "__main__":
    main()
