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
from pytest_kwait.plugin.run import shard_key
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.suite.shards.split import Durations, Shard, SplitEntry, Unit

_sharding_key: pytest.StashKey[Sharding] = pytest.StashKey()
_counts_key = pytest.StashKey[tuple[int, int]]()


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
        mine = shares[self.shard.index - 1]
        others = sorted(set(range(len(items))).difference(mine))
        return [items[each] for each in mine], [items[each] for each in others]

    def _place(self) -> Callable[[Sequence[Unit], int], list[int]] | None:
        if not self.algorithm:
            return None
        from pytest_split.algorithms import Algorithms

        from pytest_kwait.suite.shards.split import split_by_duration

        algorithm = Algorithms[self.algorithm].value
        return split_by_duration(self.seconds, algorithm, Algorithms.least_duration.value)


def pytest_configure(config: pytest.Config) -> None:
    """Determine the shard; an invalid one ends the run at once."""
    handed: dict[str, Any] | None = getattr(config, "workerinput", {}).get("kwait_shard")
    if handed is not None:
        from pytest_kwait.suite.shards.split import Shard

        sharding = Sharding(Shard(*handed["shard"]), handed["algorithm"], handed["seconds"], "", "")
    else:
        try:
            sharding = _read_sharding(config)
        except InvalidArgument as error:
            raise pytest.UsageError(str(error)) from None
    config.stash[_sharding_key] = sharding
    config.stash[shard_key] = str(sharding.shard)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the shard and its basis to a worker of pytest-xdist."""
    sharding = node.config.stash[_sharding_key]
    node.workerinput["kwait_shard"] = {
        "shard": (sharding.shard.index, sharding.shard.total),
        "algorithm": sharding.algorithm,
        "seconds": sharding.seconds,
    }


def pytest_report_header(config: pytest.Config) -> str:
    """Print the shard, its source and the basis of the split."""
    sharding = config.stash[_sharding_key]
    return f"kwait: shard {sharding.shard} ({sharding.origin}), {sharding.basis}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of this shard and deselect the others."""
    mine, others = config.stash[_sharding_key].select(items)
    config.stash[_counts_key] = (len(mine), len(items))
    items[:] = mine
    if others:
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a shard without tests pass: there are fewer tests than shards."""
    config = session.config
    counts = config.stash.get(_counts_key, None)
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["kwait_shard"] = counts
    elif counts is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        mine, everything = counts
        if everything and not mine:
            session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the number of tests that a worker found; all find the same."""
    counts = (getattr(node, "workeroutput", None) or {}).get("kwait_shard")
    if counts is not None:
        node.config.stash[_counts_key] = tuple(counts)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the shard's part of the suite: pytest-xdist prints no deselected tests."""
    counts = config.stash.get(_counts_key, None)
    if counts is not None:
        mine, everything = counts
        shard = config.stash[_sharding_key].shard
        terminalreporter.line(f"kwait: shard {shard} is {mine} of {everything} tests")


def _read_sharding(config: pytest.Config) -> Sharding:
    from pytest_kwait.suite.shards.ci import read_ci_shard
    from pytest_kwait.suite.shards.split import Shard

    setting = run_settings(config).setting("shard")
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
    from pytest_kwait.plugin.run import has_marker
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
