"""Waits on PersistentVolumeClaims, PersistentVolumes and VolumeAttachments.

Contents: conditions on these kinds and their waits.
"""
