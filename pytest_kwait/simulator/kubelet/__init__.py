"""The kubelets of the embedded cluster: one per node, running the pods bound to it.

Contents: the parts of a kubelet, named as in upstream's `pkg/kubelet`. They see each other
through the protocols of `pod_context`, and container runtimes through those of `cri`, which
`runtimes` implement.
"""
