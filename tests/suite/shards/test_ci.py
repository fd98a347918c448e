from __future__ import annotations

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.shards.ci import read_ci_shard

_GITLAB = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "4"}
_CIRCLE = {"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "3"}
_BUILDKITE = {"BUILDKITE_PARALLEL_JOB": "2", "BUILDKITE_PARALLEL_JOB_COUNT": "3"}
_JOB = {"JOB_COMPLETION_INDEX": "0"}
_KNOWN = (
    "no CI system says which job this is: auto reads CI_NODE_INDEX and CI_NODE_TOTAL (GitLab), "
    "CIRCLE_NODE_INDEX and CIRCLE_NODE_TOTAL (CircleCI), BUILDKITE_PARALLEL_JOB and "
    "BUILDKITE_PARALLEL_JOB_COUNT (Buildkite), JOB_COMPLETION_INDEX (Kubernetes Indexed Job; "
    "use auto/N); or use I/N, for example 2/4"
)


def said(environ: dict[str, str], given: str = "auto") -> tuple[str, str]:
    total = int(given.partition("/")[2]) if "/" in given else None
    shard, origin = read_ci_shard(environ, total, given, "env KWAIT_SHARD")
    return str(shard), origin


@pytest.mark.parametrize(
    ("environ", "given", "shard", "origin"),
    [
        (_GITLAB, "auto", "2/4", "GitLab: CI_NODE_INDEX=2, CI_NODE_TOTAL=4"),
        (_GITLAB, "auto/4", "2/4", "GitLab: CI_NODE_INDEX=2, CI_NODE_TOTAL=4"),
        (_CIRCLE, "auto", "1/3", "CircleCI: CIRCLE_NODE_INDEX=0, CIRCLE_NODE_TOTAL=3"),
        (
            _BUILDKITE,
            "auto",
            "3/3",
            "Buildkite: BUILDKITE_PARALLEL_JOB=2, BUILDKITE_PARALLEL_JOB_COUNT=3",
        ),
        (_JOB, "auto/5", "1/5", "Kubernetes Indexed Job: JOB_COMPLETION_INDEX=0"),
        ({"CI_NODE_TOTAL": "1"}, "auto", "1/1", "GitLab: CI_NODE_TOTAL=1"),
        ({"CI_NODE_INDEX": "2"}, "auto/4", "2/4", "GitLab: CI_NODE_INDEX=2"),
        # A job that GitLab does not run side by side says nothing.
        (
            {"CI_NODE_TOTAL": "1", **_JOB},
            "auto/2",
            "1/2",
            "Kubernetes Indexed Job: JOB_COMPLETION_INDEX=0",
        ),
        # Empty is as good as unset.
        (
            {**_CIRCLE, "CI_NODE_INDEX": "", "CI_NODE_TOTAL": ""},
            "auto",
            "1/3",
            "CircleCI: CIRCLE_NODE_INDEX=0, CIRCLE_NODE_TOTAL=3",
        ),
    ],
)
def test_each_system_counts_in_its_own_way(
    environ: dict[str, str], given: str, shard: str, origin: str
) -> None:
    assert said(environ, given) == (shard, origin)


def _asked(name: str, given: str = "auto") -> str:
    return f"(from {name}, as env KWAIT_SHARD asks for {given})"


@pytest.mark.parametrize(
    ("environ", "given", "message"),
    [
        ({}, "auto", f"shard='auto' (from env KWAIT_SHARD) is not valid: {_KNOWN}"),
        ({}, "auto/3", f"shard='auto/3' (from env KWAIT_SHARD) is not valid: {_KNOWN}"),
        (
            {"CI_NODE_TOTAL": "1"},
            "auto/3",
            f"shard='auto/3' (from env KWAIT_SHARD) is not valid: {_KNOWN}",
        ),
        (
            {**_GITLAB, **_CIRCLE},
            "auto",
            "shard='auto' (from env KWAIT_SHARD) is not valid: GitLab (CI_NODE_INDEX=2, "
            "CI_NODE_TOTAL=4) and CircleCI (CIRCLE_NODE_INDEX=0, CIRCLE_NODE_TOTAL=3) each say "
            "which job this is; use I/N, for example 2/4",
        ),
        (
            {"CI_NODE_INDEX": "2"},
            "auto",
            f"CI_NODE_INDEX='2' {_asked('GitLab')} is not valid: CI_NODE_TOTAL is not set, so "
            "the number of jobs is unknown; use auto/N",
        ),
        (
            {"CI_NODE_TOTAL": "4"},
            "auto",
            f"CI_NODE_TOTAL='4' {_asked('GitLab')} is not valid: CI_NODE_INDEX is not set, so "
            "the number of this job is unknown",
        ),
        (
            _JOB,
            "auto",
            f"JOB_COMPLETION_INDEX='0' {_asked('Kubernetes Indexed Job')} is not valid: it knows "
            "no total, so the number of jobs is unknown; use auto/N",
        ),
        (
            {"JOB_COMPLETION_INDEX": "5"},
            "auto/5",
            f"JOB_COMPLETION_INDEX='5' {_asked('Kubernetes Indexed Job', 'auto/5')} is not "
            "valid: Kubernetes Indexed Job counts from 0, which makes 4 the last of auto/5",
        ),
        (
            {"CIRCLE_NODE_INDEX": "3", "CIRCLE_NODE_TOTAL": "3"},
            "auto",
            f"CIRCLE_NODE_INDEX='3' {_asked('CircleCI')} is not valid: CircleCI counts from 0, "
            "which makes 2 the last of CIRCLE_NODE_TOTAL=3",
        ),
        (
            {"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "4"},
            "auto",
            f"CI_NODE_INDEX='0' {_asked('GitLab')} is not valid: GitLab counts from 1, which "
            "makes 4 the last of CI_NODE_TOTAL=4",
        ),
        (
            {"CI_NODE_INDEX": "two", "CI_NODE_TOTAL": "4"},
            "auto",
            f"CI_NODE_INDEX='two' {_asked('GitLab')} is not valid: use a whole number; GitLab "
            "counts from 1",
        ),
        (
            {"CI_NODE_INDEX": "-1", "CI_NODE_TOTAL": "4"},
            "auto",
            f"CI_NODE_INDEX='-1' {_asked('GitLab')} is not valid: use a whole number; GitLab "
            "counts from 1",
        ),
        (
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "many"},
            "auto",
            f"CI_NODE_TOTAL='many' {_asked('GitLab')} is not valid: use a whole number; the "
            "number of jobs is at least 1",
        ),
        (
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "0"},
            "auto",
            f"CI_NODE_TOTAL='0' {_asked('GitLab')} is not valid: the number of jobs is at least 1",
        ),
        (
            _GITLAB,
            "auto/3",
            "shard='auto/3' (from env KWAIT_SHARD) is not valid: GitLab says CI_NODE_TOTAL=4; use "
            "auto, or auto/4",
        ),
    ],
)
def test_invalid_variables_are_refused(environ: dict[str, str], given: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        said(environ, given)
    assert str(caught.value) == message
