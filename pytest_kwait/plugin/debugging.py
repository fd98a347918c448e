"""Debuggers: the clock of waits is stopped while a prompt waits for a command.

It runs while a command runs, so a wait that is stepped over ends as it would without a debugger.
The run's Lease has a clock of its own and is renewed, and informers keep running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_STARTER = "kwait-debugging"


def pytest_enter_pdb(config: pytest.Config, pdb: Any) -> None:
    """Stop the clock at each prompt; suspend the live status."""
    import cmd

    from pytest_kwait.clock import TEST_CLOCK
    from pytest_kwait.plugin.live_status import suspend_status

    suspend_status(config)
    if not isinstance(pdb, cmd.Cmd):
        # Another debugger: it is unknown when it shows its prompt.
        return
    if not config.pluginmanager.hasplugin(_STARTER):
        config.pluginmanager.register(_ClockStarter(), _STARTER)

    def enter_prompt() -> None:
        suspend_status(config)
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
    vars(pdb).update(preloop=before_the_prompt, precmd=before_a_command, postcmd=after_a_command)


def pytest_leave_pdb(config: pytest.Config, pdb: Any) -> None:
    """Start the clock and resume the live status."""
    from pytest_kwait.clock import TEST_CLOCK
    from pytest_kwait.plugin.live_status import resume_status

    TEST_CLOCK.resume()
    resume_status(config)


class _ClockStarter:
    """Registered at the first prompt."""

    def pytest_unconfigure(self) -> None:
        """Start the clock after a debugger that was left in another way."""
        from pytest_kwait.clock import TEST_CLOCK

        TEST_CLOCK.resume()
