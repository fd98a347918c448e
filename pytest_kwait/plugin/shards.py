"""The shard of this run: selects its tests. Registered if the run is one of several shards.

Under pytest-xdist the controller determines the shard and the recorded durations, and
passes both to its workers, which therefore agree even if a file or a variable changes
meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.run import worker_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.shards.split import Durations, Shard, SplitEntry, Unit


class Sharding:
    """The shard of this run, and how tests are split.

    Args:
        algorithm: the name of pytest-split's algorithm; empty to split by count.
        seconds: recorded durations by test id.
        origin: the source of the shard, for the header.
        basis: the basis of the split, for the header.
    """

    def __init__(
        self, shard: Shard, algorithm: str, seconds: dict[str, float], origin: str, basis: str
    ) -> None:
        self.shard = shard
        self.algorithm = algorithm
        self.seconds = seconds
        self.origin = origin
        self.basis = basis

    def select(self, items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
        """Return the tests of this shard in order, and the others."""
        from pytest_kwait.suite.shards.split import split

        shares = split([_make_entry(item) for item in items], self.shard.total, self._place())
        selected = shares[self.shard.index - 1]
        others = sorted(set(range(len(items))).difference(selected))
        return [items[index] for index in selected], [items[index] for index in others]

    def _place(self) -> Callable[[Sequence[Unit], int], list[int]] | None:
        if not self.algorithm:
            return None
        from pytest_split.algorithms import Algorithms

        from pytest_kwait.suite.shards.split import split_by_duration

        algorithm = Algorithms[self.algorithm].value
        return split_by_duration(self.seconds, algorithm, Algorithms.least_duration.value)


class ShardSelector:
    """Keeps the tests of this shard.

    Args:
        run: the run, whose shard it sets.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._sharding = _find_sharding(run)
        self._counts: tuple[int, int] | None = None
        run.shard = str(self._sharding.shard)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass the shard and its basis to a worker of pytest-xdist."""
        shard = self._sharding.shard
        node.workerinput["kwait_shard"] = {
            "shard": (shard.index, shard.total),
            "algorithm": self._sharding.algorithm,
            "seconds": self._sharding.seconds,
        }

    def pytest_report_header(self) -> str:
        """Print the shard, its source and the basis of the split."""
        sharding = self._sharding
        return f"kwait: shard {sharding.shard} ({sharding.origin}), {sharding.basis}"

    # Last: tests are split as other plugins have ordered and deselected them.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the tests of this shard and deselect the others."""
        selected, others = self._sharding.select(items)
        self._counts = (len(selected), len(items))
        items[:] = selected
        if others:
            config.hook.pytest_deselected(items=others)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let a shard without tests pass: there are fewer tests than shards."""
        output = self._run.output
        if output is not None:
            output["kwait_shard"] = self._counts
        elif self._counts is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            selected, everything = self._counts
            if everything and not selected:
                session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the number of tests that a worker found; all find the same."""
        counts = worker_output(node).get("kwait_shard")
        if counts is not None:
            selected, everything = counts
            self._counts = (selected, everything)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the shard's part of the suite: pytest-xdist prints no deselected tests."""
        if self._counts is not None:
            selected, everything = self._counts
            shard = self._sharding.shard
            terminalreporter.line(f"kwait: shard {shard} is {selected} of {everything} tests")


def _find_sharding(run: Run) -> Sharding:
    """Return the controller's shard in a worker, else that of the settings.

    Raises:
        pytest.UsageError: it is invalid.
    """
    handed: dict[str, Any] | None = (run.handed or {}).get("kwait_shard")
    if handed is not None:
        from pytest_kwait.suite.shards.split import Shard

        return Sharding(Shard(*handed["shard"]), handed["algorithm"], handed["seconds"], "", "")
    try:
        return _read_sharding(run.config, run.settings)
    except InvalidArgument as error:
        raise pytest.UsageError(str(error)) from None


def _read_sharding(config: pytest.Config, settings: Settings) -> Sharding:
    from pytest_kwait.suite.shards.ci import read_ci_shard
    from pytest_kwait.suite.shards.split import Shard

    setting = settings.setting("shard")
    given_shard = setting.value
    if config.getoption("splits", None):
        raise InvalidArgument(
            "shard",
            setting.given,
            f"pytest-split is given --splits={config.getoption('splits')} as well; give one of "
            "them",
            setting.source,
        )
    if given_shard.index is None:
        shard, ci_source = read_ci_shard(
            os.environ, given_shard.total, setting.given, setting.source
        )
        origin = f"{ci_source}; {setting.source}"
    else:
        shard, origin = Shard(given_shard.index, given_shard.total), setting.source
    durations, basis = _read_durations(config)
    if durations is None:
        return Sharding(shard, "", {}, origin, basis)
    algorithm = str(config.getoption("splitting_algorithm"))
    return Sharding(shard, algorithm, dict(durations.seconds), origin, f"{algorithm} {basis}")


def _read_durations(config: pytest.Config) -> tuple[Durations | None, str]:
    """Return pytest-split's recorded durations, and the basis of the split as a phrase."""
    given = config.getoption("durations_path", None)
    if given is None:
        return None, "by count"
    from pytest_kwait.suite.shards.split import read_durations

    path = Path(given)
    standard = path == Path.cwd() / ".test_durations"
    source = "pytest-split's default" if standard else "option --durations-path"
    durations = read_durations(path, source)
    if durations is None:
        return None, f"by count, as there are no durations in {path}"
    return durations, f"by {len(durations.seconds)} durations in {path} ({durations.digest})"


def _make_entry(item: pytest.Item) -> SplitEntry:
    from pytest_kwait.plugin.markers import namespace_node
    from pytest_kwait.plugin.usage import has_marker
    from pytest_kwait.suite.shards.split import BETWEEN, FIRST, LAST, SplitEntry

    owner = namespace_node(item)
    # A session scope is shared within one shard only.
    unit = item.nodeid if isinstance(owner, pytest.Session) else owner.nodeid
    rank = BETWEEN
    if has_marker(item, "serial", "disruptive"):
        rank = LAST
    elif has_marker(item, "slow"):
        rank = FIRST
    return SplitEntry(item.nodeid, unit, rank)
