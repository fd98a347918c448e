"""The value of the fixture `kwait_informers`: synced informers that record their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pytest_kwait.apimachinery.arguments import check_flag
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.plugin.namespaces import bind_wait
from pytest_kwait.suite.informers import RecordedInformers

if TYPE_CHECKING:
    import pytest

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.cache.factory import TweakListOptions
    from pytest_kwait.cache.transform import TransformFunc


class InformersFactory:
    """Starts informers for a test and stops them at its end."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._made: list[RecordedInformers] = []

    def __call__(
        self,
        *resources: str,
        namespace: str | None = None,
        all_namespaces: bool = False,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        transform: TransformFunc | None = None,
        resync: Duration | None = None,
        tweak_list_options: TweakListOptions | None = None,
        timeout: Duration | None = None,
    ) -> RecordedInformers:
        """Return informers that have synced; their histories contain the first list.

        Args:
            *resources: resource names as in kubectl, at least one.
            namespace: another namespace than the test's own.
            all_namespaces: whether to watch all namespaces.
            label_selector: only objects with these labels.
            field_selector: only objects with these fields.
            transform: maps each object before it is stored.
            resync: the interval at which handlers get all objects again.
            tweak_list_options: changes the list options of an informer, by its resource.
            timeout: the limit of the sync; None for `cache_sync` of the timeout table.

        Raises:
            InvalidArgument: an invalid argument, or the server has no such resource.
            WaitTimeout: not all have synced in time; names those that have not.
            WaitFailed: the server refuses a list for good.
            ApiError: discovery failed.
        """
        __tracebackhide__ = True
        named: tuple[object, ...] = resources
        if not named or not all(isinstance(resource, str) and resource for resource in named):
            raise InvalidArgument(
                "resources", resources, "names of resources, as in kwait_informers('pods', 'jobs')"
            )
        check_flag("all_namespaces", all_namespaces)
        if all_namespaces and namespace is not None:
            raise InvalidArgument("namespace", namespace, "left out where all_namespaces is given")
        options: dict[str, Any] = {
            "label_selector": label_selector,
            "field_selector": field_selector,
            "transform": transform,
            "resync": resync,
            "tweak_list_options": tweak_list_options,
        }
        if namespace is None and not all_namespaces:
            namespace = self._request.getfixturevalue("kwait_namespace")
        client = self._request.getfixturevalue("kwait_client")
        informers = RecordedInformers(client, namespace, **options)
        self._made.append(informers)
        informers.start(*resources)
        wait_for_cache_sync = bind_wait(WAITS["wait_for_cache_sync"], self._request)
        # A refused list fails the wait here; a handler could not.
        wait_for_cache_sync(informers, *informers.registrations, timeout=timeout)
        return informers

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all informers."""
        for informers in self._made:
            informers.stop()
