from __future__ import annotations

import pytest

from pytest_kwait.suite.report.github import (
    MAX_SUMMARY_SIZE,
    FailedTest,
    format_annotation,
    format_summary,
)

_LINK = "https://github.com/o/r/actions/runs/5#artifacts"


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (
            FailedTest("test_a.py::test_b", "it failed", file="tests/test_a.py", line=7),
            "::error file=tests/test_a.py,line=7,title=test_a.py%3A%3Atest_b::it failed",
        ),
        (
            FailedTest("t[a,b:c%]", "100%: a,b\r\nc", file="a,b.py"),
            "::error file=a%2Cb.py,line=1,title=t[a%2Cb%3Ac%25]::100%25: a,b%0D%0Ac",
        ),
        (FailedTest("test", "nowhere"), "::error title=test::nowhere"),
    ],
)
def test_annotations_are_escaped(failed: FailedTest, line: str) -> None:
    assert format_annotation(failed) == line


def test_a_summary_is_a_table() -> None:
    failures = [
        FailedTest("test_a.py::test_b", "pod x is late", "pod x to be ready", "art/b"),
        FailedTest("test_a.py::test_c (setup)", "KeyError: 'a'"),
    ]
    counts = {"failed": 1, "error": 2, "passed": 3, "skipped": 0}
    assert format_summary(failures, counts, run="r1", link=_LINK) == (
        "### pytest-kwait: 1 failed, 2 errors, 3 passed\n"
        "\n"
        "Run <code>r1</code>.\n"
        "\n"
        "| test | what happened | awaited | artifacts |\n"
        "| --- | --- | --- | --- |\n"
        "| <code>test&#95;a.py::test&#95;b</code> | pod x is late | pod x to be ready "
        f'| <a href="{_LINK}"><code>art/b</code></a> |\n'
        "| <code>test&#95;a.py::test&#95;c (setup)</code> | KeyError: 'a' |  |  |\n"
        "\n"
    )


def test_without_artifacts_there_is_no_column_for_them() -> None:
    text = format_summary([FailedTest("test_b", "late")], {"failed": 1}, run="r1", link=_LINK)
    assert text.splitlines()[4:] == [
        "| test | what happened | awaited |",
        "| --- | --- | --- |",
        "| <code>test&#95;b</code> | late |  |",
        "",
    ]


def test_table_cells_are_escaped() -> None:
    failed = FailedTest("t[|*`x`*|]", "<b>~~a~~</b>\n[x](y) & \\")
    row = format_summary([failed], {}, run="<r>").splitlines()[-2]
    assert row == (
        "| <code>t&#91;&#124;&#42;&#96;x&#96;&#42;&#124;&#93;</code> "
        "| &lt;b&gt;&#126;&#126;a&#126;&#126;&lt;/b&gt; &#91;x&#93;(y) &amp; &#92; |  |"
    )


@pytest.mark.parametrize("size", [0, 100, 300, 2000, 100_000, MAX_SUMMARY_SIZE])
def test_a_summary_is_never_longer_than_allowed(size: int) -> None:
    failures = [FailedTest(f"test_{number}", "ü" * 400) for number in range(3000)]
    text = format_summary(failures, {"failed": 3000}, run="r1", size=size)
    assert len(text.encode()) <= size
    rows = text.count("<code>test&#95;")
    if size >= 2000:
        assert rows > 0
        assert text.endswith(f"\n{3000 - rows} more failures are left out.\n\n")
