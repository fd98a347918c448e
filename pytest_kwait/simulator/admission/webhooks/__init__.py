"""Admission webhooks: match, call, read the AdmissionReview, apply its patch.

What may enter: what k8s.io/apiserver has in pkg/admission/plugin/webhook, and the HTTPS client that
conversion webhooks and API services use too. `dispatcher` has both plugins; the rest is loaded with
the first webhook.
"""
