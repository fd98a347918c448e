"""The HorizontalPodAutoscaler controller.

What may enter: the controller, its replica calculation, and the scriptable metrics it reads.

Source: kube-controller-manager, pkg/controller/podautoscaler.
"""
