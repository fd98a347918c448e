"""The programs of busybox, by group.

What may enter: programs that `applets` names, each a function of its process's context and
its arguments. A module is imported when a container first runs one of its programs. The
groups are GNU's: `shellutils`, `textutils`, `fileutils`, `inetutils`.
"""
