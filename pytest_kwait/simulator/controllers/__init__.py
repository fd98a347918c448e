"""The controllers of the embedded cluster, and its scheduler.

What may enter: loops that follow objects and change others through the cluster's API, as
kube-controller-manager and kube-scheduler do, named after upstream's pkg/controller. None of
them serves requests or runs containers; order and content of their writes are upstream's.
"""
