"""Debuggers: the clock of waits is stopped while a prompt waits for a command.

It runs while a command runs, so a wait that is stepped over ends as it would without a debugger.
The run's Lease has a clock of its own and is renewed, and informers keep running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import TEST_CLOCK
from pytest_kwait.plugin.live_status import resume_status, suspend_status

if TYPE_CHECKING:
    import pytest

    from pytest_kwait.plugin.run import Run


class DebuggerClock:
    """Stops the clock of waits at the prompt of a debugger."""

    def __init__(self, run: Run) -> None:
        self._config = run.config
        self._has_stopped = False

    def pytest_enter_pdb(self, pdb: Any) -> None:
        """Stop the clock at each prompt; suspend the live status."""
        import cmd

        suspend_status(self._config)
        if not isinstance(pdb, cmd.Cmd):
            # Another debugger: it is unknown when it shows its prompt.
            return
        self._has_stopped = True

        def enter_prompt() -> None:
            suspend_status(self._config)
            TEST_CLOCK.stop()

        preloop, precmd, postcmd = pdb.preloop, pdb.precmd, pdb.postcmd

        def before_the_prompt() -> None:
            preloop()
            enter_prompt()

        def before_a_command(line: str) -> str:
            TEST_CLOCK.resume()
            return precmd(line)

        def after_a_command(stop: bool, line: str) -> bool:
            over = postcmd(stop, line)
            if not over:
                enter_prompt()
            return over

        # These methods belong to this stop at the prompt and those that follow from it.
        vars(pdb).update(
            preloop=before_the_prompt, precmd=before_a_command, postcmd=after_a_command
        )

    def pytest_leave_pdb(self) -> None:
        """Start the clock and resume the live status."""
        TEST_CLOCK.resume()
        resume_status(self._config)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Start the clock after a debugger that was left in another way."""
        if self._has_stopped:
            TEST_CLOCK.resume()
