"""The runtime of mapped images where no namespaces can be made: system calls are intercepted.

A container's programs run under a seccomp filter that hands chosen system calls to an interceptor,
their parent. It answers them, performs them in their place, or changes their arguments: each pod
has an address of its own on the machine's loopback interface and sees that of the cluster, and each
container has its volumes at their paths. It makes programs run as in a pod and keeps no hostile
one in.

- `interceptor` is the loop of the process above a container's programs.
- `seccomp` installs filters and takes notifications; `tracer` changes arguments and results.
- `system_calls` has the numbers and registers of the processors.
- `network` answers calls of sockets, with the addresses of `addresses`; `bound_sockets` looks for
  those that listen.
- `service_routes` leads connections to services straight to endpoints, `connection_filter` those
  that are not allowed to nowhere; both read a `shared_file` of the server.
- `argument_memory` keeps changed arguments in the memory of programs.
- `files` answers calls with paths, which `paths` resolves: those that open files itself, those that
  read or change their status by `status_calls` and `change_calls`, those that create, remove and
  rename by `entry_calls`, those that change the process by `process_calls`. `file_system` makes
  them with a program's rights, and `layer` keeps what a container has written.
- `unix_sockets` finds paths for the addresses of Unix sockets, and their names.
- `executables` reads what a program needs to be started.
- `interfaces` shows the network interfaces of the pod; `kernel_files` its files in /proc/net and
  /proc/sys.
- `names` answers calls of the host name, and of users where the server may set none; `users` those
  that change a user, and looks into processes of other users.
- `cluster_socket` are sockets of the server that speak the cluster's addresses.

Modules of the processes that are started import the standard library only.

Source: man 2 seccomp_unotify, ptrace, seccomp.
"""
