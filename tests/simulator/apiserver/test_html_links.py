from __future__ import annotations

import pytest

from pytest_kwait.simulator.apiserver.subresources.html_links import rewrite_links

BASE = "/api/v1/namespaces/a/pods/p/proxy"


@pytest.mark.parametrize(
    ("page", "linked"),
    [
        ("plain text, 1 < 2", "plain text, 1 < 2"),
        ("<P>x</P>", "<p>x</P>"),
        ("<a href=/x>", f'<a href="{BASE}/x">'),
        ("<A HREF='/x' Class=y>", f'<a href="{BASE}/x" class="y">'),
        ('<img src="/i"/>', f'<img src="{BASE}/i"/>'),
        ('<a href="x">', '<a href="x">'),
        ('<a href="//other/x">', '<a href="//other/x">'),
        ('<a href="https://other/x">', '<a href="https://other/x">'),
        ('<p title="/x">', '<p title="/x">'),
        ("<form action=/do><input disabled>", f'<form action="{BASE}/do"><input disabled="">'),
    ],
)
def test_links_lead_through_the_proxy_again(page: str, linked: str) -> None:
    assert rewrite_links(page, BASE) == linked
