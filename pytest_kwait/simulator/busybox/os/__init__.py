"""The operating system of a container: files, open files, processes, memory, network.

What may enter: what programs ask of a kernel. It knows no program and no shell.
"""
