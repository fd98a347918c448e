"""The scheduler, compared with a real kube-scheduler."""
