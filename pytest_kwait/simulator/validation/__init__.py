"""Validation of API objects, as in upstream's `pkg/apis/*/validation`.

Contents: one module or folder per API group, and the checks that groups share
(`objectmeta`, `addresses`). A function takes a decoded and defaulted object, or a part
of one and its path, and on an update the stored object too; it reports field errors in
kube-apiserver's order and with its texts. Validation changes nothing and knows neither requests
nor other objects.

Source: k8s.io/kubernetes pkg/apis/*/validation/validation.go.
"""

from __future__ import annotations
