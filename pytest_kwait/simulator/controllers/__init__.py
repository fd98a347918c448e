"""The controllers of the embedded cluster, and its scheduler.

They are loops that follow objects and change others through the cluster's API, as
kube-controller-manager and kube-scheduler do, named after upstream's pkg/controller. Content and
order of their writes are upstream's.
"""
