"""Tables for `kubectl get`: columns and cells of every kind.

What may enter: what k8s.io/kubernetes has in pkg/printers/internalversion/printers.go, from an
object to the cells of its row. `columns` is loaded with the first table.
"""
