"""Run the embedded cluster: `python -m pytest_kwait.simulator`, see `server_main`."""

from __future__ import annotations

import os
import sys

# The server is no TLS client: what aiohttp imports need not read the machine's certificates.
os.environ["SSL_CERT_FILE"] = os.devnull

from pytest_kwait.simulator.server_main import main

sys.exit(main())
