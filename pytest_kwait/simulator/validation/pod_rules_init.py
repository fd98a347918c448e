"""What kube-apiserver finds wrong with a pod's spec, in its order and with its texts.

What may enter: one module per part of the spec. Each function gets the decoded and defaulted part,
the path `at` which it stands, and the `Findings` that it adds to. Rules know no requests and no
other objects.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go.
"""
