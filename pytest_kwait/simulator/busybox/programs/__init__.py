"""The programs of busybox, by group.

Contents: applets, each a function of its process's context and its arguments. A module is
imported on first use. The groups are GNU's: `shellutils`, `textutils`, `fileutils`, `inetutils`.
"""
