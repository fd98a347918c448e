"""Tests of Kubernetes' CEL function libraries."""
