"""Waiting for what makes pods: deployments, replica sets, rollouts."""
