"""Waits on Deployments.

This folder holds conditions on a Deployment, its ReplicaSets and pods, and their waits.
"""
