"""The HorizontalPodAutoscaler controller.

What may enter: the controller and its replica calculation.

Source: kube-controller-manager, pkg/controller/podautoscaler.
"""
