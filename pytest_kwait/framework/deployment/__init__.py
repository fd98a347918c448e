"""Waits on Deployments.

Admitted are conditions on a Deployment, its ReplicaSets and pods, and their waits.
"""
