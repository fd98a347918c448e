"""The HorizontalPodAutoscaler controller and its replica calculation.

Source: kube-controller-manager, pkg/controller/podautoscaler.
"""
