from __future__ import annotations

import pytest

from pytest_kwait.engine.failure.log_records import find_records, find_refusals


def about_hello(text: str) -> bool:
    return "hello" in text


KOPF = """\
[2026-01-01 00:00:01,000] kopf.objects         [INFO    ] [ci-1/hello] Handler 'write' is invoked.
[2026-01-01 00:00:02,000] kopf.objects         [ERROR   ] [ci-1/hello] Handler 'write' failed.
Traceback (most recent call last):
  File "greeter.py", line 7, in write
    find()
KeyError: 'text'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "greeter.py", line 9, in write
    api.create_namespaced_config_map(namespace, body)
kubernetes.client.exceptions.ApiException: (422)
Reason: Unprocessable Entity
HTTP response headers: HTTPHeaderDict({'Content-Type': 'application/json'})
HTTP response body: {"message":"ConfigMap \\"hello\\" is invalid: []: Too long","code":422}


[2026-01-01 00:00:03,000] kopf.objects         [ERROR   ] [ci-1/other] Handler 'write' failed.
"""

ZAP = (
    "2026-01-01T00:00:00Z\tERROR\tReconciler error\t"
    '{"controller": "page", "Page": {"name":"hello"}, "reconcileID": "1", "error": "no text"}\n'
    "sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).reconcileHandler\n"
    "\t/go/pkg/mod/controller.go:353\n"
)


@pytest.mark.parametrize(
    ("log", "records"),
    [
        pytest.param(
            KOPF,
            (
                "kopf.objects [ERROR] [ci-1/hello] Handler 'write' failed. "
                "kubernetes.client.exceptions.ApiException: (422) "
                'ConfigMap "hello" is invalid: []: Too long',
            ),
            id="kopf",
        ),
        pytest.param(
            "[2026-01-01 00:00:01,000] kopf.objects [ERROR   ] [ci-1/hello] Handler failed: (422)\n"
            'Reason: Unprocessable Entity\nHTTP response body: {"message":"Too long"}\n\n'
            "[2026-01-01 00:00:01,000] kopf.objects   [INFO    ] [ci-1/hello] It is done.\n\n",
            ("kopf.objects [ERROR] [ci-1/hello] Handler failed: (422) Too long",),
            id="kopf without a traceback",
        ),
        pytest.param(ZAP, ("ERROR Reconciler error: no text",), id="zap"),
        pytest.param(
            '{"level":"error","ts":"2026-01-01T00:00:00Z","msg":"Reconciler error","name":"hello",'
            '"error":"no text"}\n{"level":"info","msg":"done","name":"hello"}',
            ("ERROR Reconciler error: no text",),
            id="JSON of zap",
        ),
        pytest.param(
            '{"message": "Handler failed.", "object": {"name": "hello"}, "severity": "error",'
            ' "exc_info": "Traceback (most recent call last):\\n  File a\\nKeyError: 1"}',
            ("ERROR Handler failed. KeyError: 1",),
            id="JSON of kopf",
        ),
        pytest.param(
            'E0101 00:00:00.000001       1 page.go:12] "Unhandled" err="no text" page="ci-1/hello"',
            ('E0101 00:00:00.000001 1 page.go:12] "Unhandled" err="no text" page="ci-1/hello"',),
            id="klog",
        ),
        pytest.param(
            "hello: failed\nhello: failed\nhello: denied\nok\nhello: an error\nhello: panic",
            ("hello: denied", "hello: an error", "hello: panic"),
            id="the last three",
        ),
        pytest.param(
            "hello came\nother failed\nhello went", ("hello came", "hello went"), id="no error"
        ),
        pytest.param(
            "Traceback (most recent call last):\n  hello()\nValueError: x\nother failed",
            ("ValueError: x",),
            id="a traceback alone",
        ),
        pytest.param("hello {not json}: failed", ("hello {not json}: failed",), id="braces"),
        pytest.param(
            'time="2026-01-01T00:00:00Z" level=warning msg="hello waits"\n[2026/01/01 00:00:00] x',
            ('level=warning msg="hello waits"',),
            id="logrus",
        ),
        pytest.param(
            "2026-01-01 00:00:00 hello\nTraceback (most recent call last):\n  a\nX: (500)\n"
            "HTTP response body: no JSON\n",
            ("hello: X: (500)",),
            id="an answer that is no JSON",
        ),
        pytest.param("", (), id="empty"),
    ],
)  # fmt: skip
def test_records_of_an_object(log: str, records: tuple[str, ...]) -> None:
    assert find_records(log, about_hello) == records


def test_the_middle_of_a_long_record_is_cut() -> None:
    (record,) = find_records(f"hello failed: {'x' * 5000}.", about_hello)
    assert len(record) == 1005
    assert record.startswith("hello failed: xxx")
    assert record.endswith("xxx.")


def test_refusals_in_a_namespace() -> None:
    near = 'pods is forbidden: User "a" cannot list resource "pods" in the namespace "ci-1"'
    far = near.replace("ci-1", "ci-2")
    everywhere = 'pods is forbidden: User "a" cannot list resource "pods" at the cluster scope'
    log = f"{far}\n{near}\n{everywhere}\n"
    assert find_refusals(log) == (far, near, everywhere)
    assert find_refusals(log, "ci-1") == (near, everywhere)
    assert find_refusals("(403) of another", in_words=False) == ()
