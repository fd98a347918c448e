"""Waits on PersistentVolumeClaims, PersistentVolumes and VolumeAttachments.

Admitted are conditions on these kinds and their waits.
"""
