"""The controllers of claims and volumes: binding, provisioning, expansion, protection.

What may enter: these controllers, and the scheduler's check of claims. Nothing is imported here:
most of them load with the first claim, volume or volume attributes class.

Source: kube-controller-manager, pkg/controller/volume.
"""
