"""Unit tests, folder by folder as in the package; no cluster, no real sleep."""
