"""The command `kwait-scheduler`.

What may enter: flags, the component configuration, the server of health checks and metrics with
its authentication and authorization, logs, and the order in which the parts start. The
scheduler imports nothing from here, and neither does the pytest plugin.

Source: cmd/kube-scheduler.
"""
