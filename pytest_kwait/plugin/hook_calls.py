"""Calls of the hooks of `hookspecs`, and what their errors do to the running test.

An error is raised where the hook is called, with the hook's name in a note. There a test may catch
it, and a thread may lose it: the phase of the test that passes nevertheless fails with it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.timeout import running_item

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.manifests import Objects

_ERRORS = (Exception, pytest.fail.Exception)

_is_in_hook = ContextVar("is_in_hook", default=False)
"""True in the code of a hook's implementation."""


class HookCalls:
    """Calls hooks while a test is set up, called or torn down."""

    def __init__(self, run: Run) -> None:
        self._config = run.config
        # In a phase of this test, if the run is activated there.
        self._phase_of = running_item(run.config)
        self._errors: list[BaseException] = []
        self._is_on = False

    def pytest_configure(self) -> None:
        """Call hooks from now on."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.suite.observers import APPLY_LISTENERS

        self._is_on = True
        ACTIVE_WAITS.wait_contexts.append(self._around_wait)
        APPLY_LISTENERS.append(self._call_applied)

    def pytest_unconfigure(self) -> None:
        """Call no hook any more."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.suite.observers import APPLY_LISTENERS

        self._is_on = False
        ACTIVE_WAITS.wait_contexts.remove(self._around_wait)
        APPLY_LISTENERS.remove(self._call_applied)

    # First: around the hooks of other plugins, which wait.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a setup in which a hook failed."""
        return (yield from self._phase(item))

    # First: around the hooks of other plugins, which wait.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a call in which a hook failed."""
        return (yield from self._phase(item))

    # First: around the hooks of other plugins, which wait.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a teardown in which a hook failed."""
        return (yield from self._phase(item))

    @property
    def are_called(self) -> bool:
        """Return whether hooks are called for the code that runs now."""
        return self._is_on and not _is_in_hook.get()

    def is_implemented(self, node: pytest.Item | pytest.Collector, name: str) -> bool:
        """Return whether a plugin, or a conftest above a node, implements a hook."""
        return bool(getattr(node.ihook, name).get_hookimpls())

    def call(self, node: pytest.Item | pytest.Collector, name: str, /, **arguments: Any) -> None:
        """Call a hook of the plugins, and of the conftests above a node.

        Raises:
            Exception: what an implementation raises.
        """
        token = _is_in_hook.set(True)
        try:
            getattr(node.ihook, name)(**arguments)
        except _ERRORS as error:
            if isinstance(error, pytest.fail.Exception):
                # Shown without its notes.
                error.msg = f"{error.msg}\nin hook {name}"
            else:
                error.add_note(f"in hook {name}")
            self._errors.append(error)
            raise
        finally:
            _is_in_hook.reset(token)

    @property
    def _item(self) -> pytest.Item | None:
        """The test in one of its phases, where an error fails it; None otherwise."""
        item = self._phase_of
        return item if item is running_item(self._config) else None

    def _phase(self, item: pytest.Item) -> Generator[None, object, object]:
        self._phase_of = item
        try:
            result = yield
        finally:
            self._phase_of = None
            # An error of the phase stays alone.
            errors, self._errors = self._errors, []
        if errors:
            raise errors[0]
        return result

    @contextmanager
    def _around_wait(self, wait: ActiveWait) -> Iterator[None]:
        item = self._item
        if item is None or not self.are_called:
            yield
            return
        self._call_for_wait(item, "pytest_kwait_wait_started", wait)
        name = "pytest_kwait_wait_ended"

        def end(_kind: object, error: BaseException | None, _traceback: object) -> None:
            try:
                self._call_for_wait(item, name, wait)
            except _ERRORS as other:
                if error is None:
                    raise
                # That of the wait stays in front.
                error.add_note(f"hook {name} failed too: {type(other).__name__}: {other}")
                other.__suppress_context__ = True

        with ExitStack() as stack:
            stack.push(end)
            yield

    def _call_for_wait(self, item: pytest.Item, name: str, wait: ActiveWait) -> None:
        from pytest_kwait.suite.observers import describe_wait

        if self.is_implemented(item, name):
            self.call(item, name, wait=describe_wait(wait), item=item)

    def _call_applied(self, kwait: Kwait, objects: Objects) -> None:
        item, name = self._item, "pytest_kwait_applied"
        if item is not None and self.are_called and self.is_implemented(item, name):
            namespace = kwait.namespace
            self.call(
                item, name, kwait=kwait, namespace=namespace, objects=list(objects), item=item
            )


class NamespaceHooks:
    """The hooks at the start and the end of one namespace.

    Args:
        node: the test, class, module or session that owns it.
        make_kwait: makes the `Kwait` for the hooks; called if one is implemented.
    """

    def __init__(
        self,
        calls: HookCalls,
        node: pytest.Item | pytest.Collector,
        namespace: str,
        make_kwait: Callable[[], AbstractContextManager[Kwait]],
    ) -> None:
        self._calls = calls
        self._node = node
        self._namespace = namespace
        self._make_kwait = make_kwait
        self._kwait: Kwait | None = None
        self._stack = ExitStack()
        self._is_created = False

    def call_created(self) -> None:
        """Call the hook for a created namespace, unless a hook has created it."""
        if self._calls.are_called:
            self._call("pytest_kwait_namespace_created")
            self._is_created = True

    def end(self, error: BaseException | None, *, deletes: bool) -> BaseException | None:
        """Remove what the hooks have created outside of the namespace.

        Args:
            error: the error that ends the use of the namespace, which stays in front.
            deletes: whether the namespace is deleted next, for which a hook is called.

        Returns:
            the error to raise once the namespace is removed.
        """
        try:
            with self._stack:
                if deletes and self._is_created:
                    self._call("pytest_kwait_namespace_deleting")
        except _ERRORS as other:
            if error is None:
                return other
            error.add_note(f"at the end of its namespace: {type(other).__name__}: {other}")
        return None

    def _call(self, name: str) -> None:
        if not self._calls.is_implemented(self._node, name):
            return
        if self._kwait is None:
            self._kwait = self._stack.enter_context(self._make_kwait())
        self._calls.call(
            self._node, name, kwait=self._kwait, namespace=self._namespace, node=self._node
        )
