"""Pods on minions."""
