"""The API client: the only package that sends requests to an API server.

Requests go through the official client's `ApiClient`, take and return JSON as plain dicts, and end
by their deadline. Waiting, retrying and the meaning of objects belong to the layers above.
"""

from __future__ import annotations
