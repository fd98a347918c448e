"""The exploration of an embedded cluster: what it perturbs, under a seed, and what it did."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.clock import Deadline
from pytest_kwait.clusters.faults import NotEmbeddedError
from pytest_kwait.errors import ApiError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.client.session import ApiSession

_PATH = "/kwait/v1/exploration"
_REQUEST_TIMEOUT = 30.0


class AppliedPerturbations(NamedTuple):
    """The perturbations of an exploration that has ended.

    Args:
        decisions: the first decisions, as `NAME@EVENT`.
        omitted: the number of decisions after them.
    """

    decisions: tuple[str, ...] = ()
    omitted: int = 0


class ExplorationControl:
    """Starts and ends explorations of one cluster; `kwait_cluster.exploration`.

    Args:
        server: the cluster's address, for messages.
    """

    def __init__(self, session: Callable[[], ApiSession], server: str) -> None:
        self._session = session
        self._server = server

    def start(self, seed: int, level: str, only: Sequence[str] | None = None) -> None:
        """Perturb from now on; an exploration that runs ends.

        Args:
            seed: the same seed perturbs the same events.
            level: `gentle`, `usual` or `harsh`.
            only: names of perturbations, and decisions as `NAME@EVENT`; None for all of the level.

        Raises:
            NotEmbeddedError: the cluster cannot be explored.
            ApiError: it refuses the values.
        """
        given: object = only
        if given is not None and (isinstance(given, str) or not isinstance(given, Collection)):
            raise InvalidArgument("only", only, "a list of names")
        body = {"seed": seed, "level": level, "only": None if only is None else list(only)}
        try:
            self._session().request(
                "PUT", _PATH, body=body, deadline=Deadline.after(_REQUEST_TIMEOUT)
            )
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            raise NotEmbeddedError(
                f"only an embedded cluster can be explored, by its administrators: {self._server} "
                f"refuses it ({error.status})"
            ) from error

    def end(self) -> AppliedPerturbations:
        """End the exploration; what it holds back happens now.

        Returns:
            what it has perturbed.

        Raises:
            ApiError: none runs.
        """
        answer = self._session().request("DELETE", _PATH, deadline=Deadline.after(_REQUEST_TIMEOUT))
        report = json.loads(answer.data)
        decisions = tuple(
            f"{perturbation['name']}@{perturbation['event']}" for perturbation in report["applied"]
        )
        return AppliedPerturbations(decisions, int(report["dropped"]))
