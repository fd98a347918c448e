"""The controllers of claims and volumes: binding, provisioning, expansion, protection.

The scheduler's check of claims is here as well. This module imports nothing: most controllers load
with the first claim, volume or volume attributes class.

Source: kube-controller-manager, pkg/controller/volume.
"""
