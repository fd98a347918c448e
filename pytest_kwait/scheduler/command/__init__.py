"""What the program `kwait-scheduler` is made of beside the scheduler itself.

What may enter: flags, the configuration they and a file make, the certificate, the server of health
and metrics with its authentication and authorization, logs, and the order in which all of it
starts. The scheduler knows none of it, and neither does whoever loads the plugin.
"""
