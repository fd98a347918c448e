"""A controller in Go in the cluster, with its rights, webhooks and leader election."""
