"""What is loaded in the process that `ForkedPython` forks: pytest, its plugins and the package."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import tempfile
from pathlib import Path

import pytest

from tests.forked_python import GC_THRESHOLDS, fork_processes
from tests.installed_distributions import keep_distributions
from tests.plugin.registered_plugins import look_for_fixtures_once

keep_distributions(pytest.MonkeyPatch())
look_for_fixtures_once(pytest.MonkeyPatch())
with (
    tempfile.TemporaryDirectory() as folder,
    pytest.MonkeyPatch.context() as patch,
    Path(os.devnull).open("w") as nowhere,
    contextlib.redirect_stdout(nowhere),
):
    patch.chdir(folder)
    # Within a run, whose hook rewrites the asserts of plugins: a later run warns of others.
    pytest.main(["-p", "tests.plugin.preloaded", "--collect-only", folder])
fork_processes(pytest.MonkeyPatch())
# It looks up the files of all modules, for the source of a failure, and keeps what it has found.
inspect.getmodule(compile("", "<none>", "exec"))
gc.collect()
gc.freeze()
gc.set_threshold(*GC_THRESHOLDS)
