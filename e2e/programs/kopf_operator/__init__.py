"""A kopf operator in the cluster, with its rights, its webhook and its peers."""
