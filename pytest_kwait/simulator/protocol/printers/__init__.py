"""Tables for `kubectl get`: columns and cells of every kind.

As k8s.io/kubernetes pkg/printers/internalversion/printers.go. `columns` is loaded with the first
table.
"""
