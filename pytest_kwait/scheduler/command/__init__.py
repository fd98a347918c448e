"""The command `kwait-scheduler`.

What may enter: flags, the component configuration, the server of health checks and metrics with its
authentication and authorization, logs, and the order in which the parts start. Neither the rest of
the scheduler nor the pytest plugin imports this folder.

Source: cmd/kube-scheduler.
"""
