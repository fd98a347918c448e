"""The fixture that holds elections, with processes that find no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_invalid_arguments_are_reported(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        def test_it(kwait_leader_election):
            kwait_leader_election(2, lease_duration=10, renew_deadline="3s", retry_period="2.5s")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*InvalidArgument: renew_deadline=3.0 is not valid: renewDeadline must be greater than "
            "retryPeriod[*]JitterFactor"
        ]
    )


def test_candidates_end_with_the_test(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait import KwaitError

        made = []

        def test_it(kwait_leader_election, kwait_namespace):
            election = kwait_leader_election(2, lease="boss")
            made.extend(election)
            election[1].pause()
            assert election.lease == f"{kwait_namespace}/boss"
            assert kwait_leader_election(1, namespace="other").lease == (
                "other/kwait-leader-election"
            )
            election[1].resume()
            with pytest.raises(KwaitError) as caught:
                election.leader("1m")
            said = " ".join(str(caught.value).split())
            assert said.startswith(
                f"no candidate of lease {kwait_namespace}/boss can lead: candidate-0 has ended "
                "with status 1, candidate-1 has ended with status 1; the lease has no holder; "
            )
            assert "/fake/kubeconfig" in said

        def test_all_have_ended():
            assert [each.alive for each in made] == [False, False]
        """
    )
    pytester.runpytest().assert_outcomes(passed=2)
