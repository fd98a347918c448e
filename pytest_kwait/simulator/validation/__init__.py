"""What kube-apiserver finds wrong with what makes and keeps pods, in its order and with its texts.

What may enter: one module per kind or per part that several kinds have. As in `pod_rules`, each
function gets the decoded and defaulted part, its path and the `Findings` that it adds to.

Source: k8s.io/kubernetes pkg/apis/{apps,autoscaling,batch,policy}/validation/validation.go.
"""
