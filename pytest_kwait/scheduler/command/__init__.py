"""The command `kwait-scheduler`.

It has the flags, the component configuration, the server of health checks and metrics with its
authentication and authorization, logging, and the start order of the parts. Neither the rest of
the scheduler nor the pytest plugin imports this package.

Source: cmd/kube-scheduler.
"""
