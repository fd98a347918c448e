"""The Job controller: runs pods to completion, counts them, retries by policy.

The package has the controller and its pure functions; kubelets run the pods.

Source: kube-controller-manager, pkg/controller/job.
"""
