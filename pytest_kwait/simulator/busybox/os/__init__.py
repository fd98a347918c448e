"""The operating system of a container: files, open files, processes, memory, network.

Contents: parts of a kernel. No program and no shell is known here.
"""
