"""Polling, backoff and contexts: Kubernetes' `util/wait`, its names in snake_case.

Functions of time and callables, without I/O. Every repeated call goes through the one loop in
`loop.py`. Use it qualified, as in Go: `wait.poll_immediate("1s", "30s", ready)`.

A condition is a callable that returns True once done and raises to stop; its exceptions
propagate unchanged. Go's channels are `threading.Event`s here, and Go's constructors are classes.

Source: k8s.io/apimachinery/pkg/util/wait (1.36).
"""

from __future__ import annotations

from pytest_kwait.wait.backoff import (
    Backoff,
    BackoffManager,
    DelayFunc,
    ExponentialBackoffManager,
    JitteredBackoffManager,
    exponential_backoff,
    exponential_backoff_with_context,
    jitter,
)
from pytest_kwait.wait.context import (
    CancelFunc,
    Context,
    background,
    context_for_channel,
    with_cancel,
    with_deadline,
    with_timeout,
)
from pytest_kwait.wait.errors import (
    Canceled,
    DeadlineExceeded,
    ErrWaitTimeout,
    error_interrupted,
    interrupted,
)
from pytest_kwait.wait.group import Group
from pytest_kwait.wait.loop import ConditionFunc, ConditionWithContextFunc
from pytest_kwait.wait.poll import (
    WaitFunc,
    poll,
    poll_immediate,
    poll_immediate_infinite,
    poll_immediate_infinite_with_context,
    poll_immediate_until,
    poll_immediate_until_with_context,
    poll_immediate_with_context,
    poll_infinite,
    poll_infinite_with_context,
    poll_until,
    poll_until_context_cancel,
    poll_until_context_timeout,
    poll_until_with_context,
    poll_with_context,
    poller,
    wait_for,
    wait_for_with_context,
)
from pytest_kwait.wait.timer import FixedTimer, NoopTimer, Tick, Timer, VariableTimer
from pytest_kwait.wait.until import (
    NEVER_STOP,
    backoff_until,
    backoff_until_with_context,
    forever,
    handle_crash,
    jitter_until,
    jitter_until_with_context,
    non_sliding_until,
    non_sliding_until_with_context,
    until,
    until_with_context,
)

__all__ = [
    "NEVER_STOP",
    "Backoff",
    "BackoffManager",
    "CancelFunc",
    "Canceled",
    "ConditionFunc",
    "ConditionWithContextFunc",
    "Context",
    "DeadlineExceeded",
    "DelayFunc",
    "ErrWaitTimeout",
    "ExponentialBackoffManager",
    "FixedTimer",
    "Group",
    "JitteredBackoffManager",
    "NoopTimer",
    "Tick",
    "Timer",
    "VariableTimer",
    "WaitFunc",
    "background",
    "backoff_until",
    "backoff_until_with_context",
    "context_for_channel",
    "error_interrupted",
    "exponential_backoff",
    "exponential_backoff_with_context",
    "forever",
    "handle_crash",
    "interrupted",
    "jitter",
    "jitter_until",
    "jitter_until_with_context",
    "non_sliding_until",
    "non_sliding_until_with_context",
    "poll",
    "poll_immediate",
    "poll_immediate_infinite",
    "poll_immediate_infinite_with_context",
    "poll_immediate_until",
    "poll_immediate_until_with_context",
    "poll_immediate_with_context",
    "poll_infinite",
    "poll_infinite_with_context",
    "poll_until",
    "poll_until_context_cancel",
    "poll_until_context_timeout",
    "poll_until_with_context",
    "poll_with_context",
    "poller",
    "until",
    "until_with_context",
    "wait_for",
    "wait_for_with_context",
    "with_cancel",
    "with_deadline",
    "with_timeout",
]
