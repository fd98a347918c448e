"""Helm, where it is installed: releases of charts in the namespace of a test.

helm renders, installs and records. What it has created is awaited and owned here: a wait of this
package ends early, with the reason, where `helm --wait` ends at its limit. Hooks are awaited by
helm itself; a hook that runs for longer than a moment is watched beside it.

Contents: how helm is run, the arguments of charts, what helm has recorded, and releases. Only this
folder runs helm.
"""
