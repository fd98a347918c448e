"""Container runtimes: what runs the containers of pods, for the kubelet.

Contents: implementations of the kubelet's interface `kubelet.cri`, and `table`, which chooses among
them.
- `interpreted/` runs shell and programs of busybox in this process;
- `scripted` plays a script in place of a container's command;
- `processes/` runs the programs of mapped images as processes of the machine.
"""
