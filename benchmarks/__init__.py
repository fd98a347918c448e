"""Speed and memory claims, each as a ratio or a difference to a peer measured in the same run."""
