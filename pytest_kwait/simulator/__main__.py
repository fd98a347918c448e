"""`python -m pytest_kwait.simulator`: see `process`."""

from __future__ import annotations

import sys

from pytest_kwait.simulator.process import main

sys.exit(main())
