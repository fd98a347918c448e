from __future__ import annotations

import subprocess
import sys

RACE = """
import sys, threading
from typing import Any, TypedDict
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.watch import get_event_decoder

sys.setswitchinterval(1e-6)
OBJECT = b'{"metadata":{"name":"a"},"status":{"conditions":[{"type":"a","status":"b"}]}}'
EVENT = b'{"type":"ADDED","object":' + OBJECT + b'}'

for _ in range(40):
    Condition = TypedDict("Condition", {"type": str, "status": str}, total=False)
    fields = {"name": str} | {f"f{n}": "int | None" for n in range(40)}
    Meta = TypedDict("Meta", fields, total=False)
    Status = TypedDict("Status", {"conditions": list[Condition] | None}, total=False)
    shapes = [TypedDict(n, {"metadata": Meta, "status": Status}) for n in ("A", "B")]
    together = threading.Barrier(8)

    def decode(n):
        together.wait()
        decode_object(OBJECT, shapes[n % 2])
        get_event_decoder(shapes[n % 2]).decode(EVENT)

    threads = [threading.Thread(target=decode, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("alive")
"""


def test_threads_that_first_decode_objects_with_parts_in_common() -> None:
    """msgspec crashed the process."""
    done = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.stdout, done.returncode) == ("alive\n", 0), done.stderr
