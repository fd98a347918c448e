"""`httpd` and `nc` as servers in containers."""

from __future__ import annotations

import pytest

from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

WEB = "mkdir -p /www/sub; echo hi > /www/index.html; echo x > /www/a.txt; "
START = "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nConnection: close\r\n"
FOUND = "Accept-Ranges: bytes\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"


def page(title: str, text: str) -> str:
    return (
        f"HTTP/1.1 {title}\r\n{START}Content-type: text/html\r\n\r\n"
        f"<HTML><HEAD><TITLE>{title}</TITLE></HEAD>\n<BODY><H1>{title}</H1>\n{text}\n"
        "</BODY></HTML>\n"
    )


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            f"HTTP/1.1 200 OK\r\n{START}Content-type: text/html\r\n{FOUND}"
            "Content-Length: 3\r\n\r\nhi\n",
        ),
        (
            "GET /a.txt?b=c HTTP/1.0\n\n",
            f"HTTP/1.1 200 OK\r\n{START}Content-type: text/plain\r\n{FOUND}"
            "Content-Length: 2\r\n\r\nx\n",
        ),
        (
            "HEAD /a.txt HTTP/1.1\r\n\r\n",
            f"HTTP/1.1 200 OK\r\n{START}{FOUND}Content-Length: 2\r\n\r\n",
        ),
        (
            "GET /sub HTTP/1.1\r\n\r\n",
            f"HTTP/1.1 302 Found\r\n{START}Content-type: text/html\r\nLocation: /sub/\r\n\r\n",
        ),
        ("GET /b HTTP/1.1\r\n\r\n", page("404 Not Found", "The requested URL was not found")),
        ("GET /../x HTTP/1.1\r\n\r\n", page("400 Bad Request", "Unsupported method")),
        ("nonsense\r\n\r\n", page("400 Bad Request", "Unsupported method")),
        (
            "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
            page("501 Not Implemented", "The requested method is not recognized"),
        ),
    ],
)
def test_httpd_answers(request_text: str, answer: str) -> None:
    harness = ContainerHarness("sh", "-c", f"{WEB}exec httpd -f -p 8080 -h /www")
    assert harness.container.running
    found = harness.ask(8080, request_text.encode())
    assert found is not None
    assert found.decode() == answer


def test_httpd_without_f_runs_in_the_background() -> None:
    harness = ContainerHarness("sh", "-c", f"{WEB}httpd -p 127.0.0.1:8080 -h /www; sleep 9")
    harness.clock.advance(1)
    assert harness.container.running
    assert (harness.ask(8080, b"GET / HTTP/1.0\r\n\r\n") or b"").endswith(b"hi\n")
    harness.clock.advance(9)
    assert harness.container.status.exit_code == 0
    assert harness.network.connect(8080) is None


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (
            ("httpd", "-f", "-h", "/nowhere"),
            1,
            "httpd: can't change directory to '/nowhere': No such file or directory\n",
        ),
        (
            ("httpd", "-x"),
            1,
            "Usage: httpd [-ifv[v]] [-c CONFFILE] [-p [IP:]PORT] [-h HOME]\n",
        ),
        (
            ("nc", "example.com"),
            1,
            "Usage: nc [-iN] [-wN] [-l] [-p PORT] [-f FILE|IPADDR PORT] [-e PROG]\n",
        ),
        (("nc", "example.com", "80"), 1, "nc: bad address 'example.com'\n"),
        (("httpd", "-f", "-p", "1"), 1, "httpd: bind: Address already in use\n"),
        (("nc", "-l", "-p", "1"), 1, "nc: bind: Address already in use\n"),
    ],
)
def test_servers_report_start_errors(argv: tuple[str, ...], code: int, text: str) -> None:
    harness = ContainerHarness("nc", "-ll", "-p", "1", "-e", "cat")
    session = harness.run(*argv)
    assert take_output(session)[2].decode() == text
    assert session.output.code == code


def test_nc_runs_a_program_for_its_one_client() -> None:
    harness = ContainerHarness("nc", "-l", "-p", "1", "-e", "sh", "-c", "echo hi; cat")
    assert harness.ask(1, b"there", close=True) == b"hi\nthere"
    harness.clock.advance()
    assert harness.container.status.exit_code == 0
    assert harness.ask(1, b"") is None


def test_nc_runs_a_program_for_each_client() -> None:
    harness = ContainerHarness("nc", "-ll", "-p", "1", "-e", "cat")
    assert harness.ask(1, b"a", close=True) == b"a"
    assert harness.ask(1, b"b", close=True) == b"b"
    assert harness.container.running


def test_nc_connects_stdin_and_stdout() -> None:
    harness = ContainerHarness("sh", "-c", "echo hello > /in; nc -l -p 1 < /in; sleep 9")
    session = harness.network.connect(1)
    assert session is not None
    assert session.stdin is not None
    session.stdin.send(b"from outside\n")
    session.stdin.close()
    harness.clock.advance()
    assert take_output(session)[1] == b"hello\n"
    assert [line for _, line in harness.log] == [b"from outside\n"]


def test_containers_of_a_pod_share_their_ports() -> None:
    harness = ContainerHarness()
    harness.run("nc", "-ll", "-p", "1", "-e", "cat")
    assert harness.ask(1, b"x", close=True) == b"x"
    assert harness.ask(2, b"x") is None
