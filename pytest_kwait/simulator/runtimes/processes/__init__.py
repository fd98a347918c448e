"""The runtime of mapped images: programs as processes of the machine.

It has containerd's and runc's place under the kubelet.
- `service` answers the kubelet, with the pods and containers of `program_container` and their
  sockets in `program_network`.
- `runtime` is the client of the launcher, on the server's event loop: dataclasses go in, processes
  come out. It sends `messages`.
- `supervisor` is the program that the server starts; it starts the `launcher` in namespaces.
- `links` are those of an image that dangle in its containers.
- `logger` is the process that reads the output of all programs.
- `container_init` and `root_filesystem` are the steps of a forked process.
- `system_calls`, `netlink`, `cgroups` and `processes` are the kernel's interfaces.
Modules of the processes that are started import the standard library only.
"""
