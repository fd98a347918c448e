"""Waiting for workloads: deployments, sets, rollouts."""
