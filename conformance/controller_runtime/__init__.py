"""controller-runtime's own envtest suites on the embedded cluster, run by choice."""
