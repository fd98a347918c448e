"""Admission webhooks: match, call, read the AdmissionReview, apply its patch.

As k8s.io/apiserver pkg/admission/plugin/webhook, with the HTTPS client that conversion webhooks and
API services share. `dispatcher` has both plugins.
"""
