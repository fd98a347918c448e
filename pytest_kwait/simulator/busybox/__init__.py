"""A simulation of busybox: its shell, its programs, and the operating system under them.

Contents: what a container's commands do. It knows no Kubernetes and imports nothing
outside itself but `clock` and `errors`. `os` is at the bottom (files, processes, memory,
network), `libbb` is what programs share, `applets` starts programs by name.
"""
