"""The API client: the only folder that talks to an API server.

What may enter: requests over the official client's `ApiClient`, JSON in and JSON out as plain
dicts, and what a request needs to end in time. No waiting, no retrying, no judging of objects:
those live above.
"""

from __future__ import annotations
