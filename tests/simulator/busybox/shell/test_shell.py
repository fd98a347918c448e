"""Shell scripts: output, exit codes, errors."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.busybox.applets import is_busybox_program
from pytest_kwait.simulator.busybox.shell.parser import parse
from pytest_kwait.simulator.busybox.shell.tree import ShellSyntaxError
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output


def sh(script: str, **env: str) -> tuple[int | None, str, str]:
    """Return exit code, stdout and stderr of a script, run for 30 seconds."""
    harness = ContainerHarness(env=env)
    session = harness.run("sh", "-c", script)
    harness.clock.advance(30)
    if session.output.code is None:
        session.stop()
    written = take_output(session)
    return session.output.code, written[1].decode(), written[2].decode()


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        ("exit 3", 3, ""),
        ("exit 300", 44, ""),
        ("false; exit", 1, ""),
        ("true && echo a || echo b", 0, "a\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", 0, "b\n"),
        ("for x in a 'b c'; do echo $x; done", 0, "a\nb c\n"),
        ("for x in 1 2 3; do if [ $x = 2 ]; then continue; fi; echo $x; done", 0, "1\n3\n"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", 0, "3\n"),
        ("(exit 4); echo $?", 0, "4\n"),
        ("x=1; (x=2; echo $x); echo $x", 0, "2\n1\n"),
        ("echo `hostname`", 0, "host\n"),
        ("echo a > /tmp/f; echo b >> /tmp/f; cat /tmp/f", 0, "a\nb\n"),
        ("echo a > /tmp/f; cat < /tmp/f; echo $(</tmp/f)", 0, "a\na\n"),
        ("set -e; false; echo no", 1, ""),
        ("exec echo gone; echo no", 0, "gone\n"),
        ("trap 'echo bye' EXIT; exit 5", 5, "bye\n"),
        ("busybox echo hi", 0, "hi\n"),
        ("", 0, ""),
        # Pipes
        ("echo a | cat | cat; echo $?", 0, "a\n0\n"),
        ("false | true; echo $?; true | false; echo $?", 0, "0\n1\n"),
        ("set -o pipefail; false | true; echo $?", 0, "1\n"),
        ("yes | head -2; echo $?", 0, "y\ny\n0\n"),
        ("set -o pipefail; yes | head -1; echo $?", 0, "y\n141\n"),
        ("echo lost | read x; echo [$x]; echo kept | { read x; echo [$x]; }", 0, "[]\n[kept]\n"),
        ("seq 30000 | wc -l", 0, "30000\n"),
        ('{ echo a; sleep 1; echo b; } | while read l; do echo "<$l>"; done', 0, "<a>\n<b>\n"),
        # Functions
        ("f() { echo $1 $#; return 3; }; f a b; echo $?", 0, "a 2\n3\n"),
        ("f() { local x=2; g; }; g() { echo $x; }; x=1; f; g", 0, "2\n1\n"),
        ("f() { [ $1 -le 1 ] && echo 1 || echo $(($1 * $(f $(($1 - 1))))); }; f 6", 0, "720\n"),
        ("f() { shift; echo $*; }; set -- x; f a b c; echo $1", 0, "b c\nx\n"),
        # case, here-documents, expansions
        ("case abc in a?c) echo one;; *) echo other;; esac", 0, "one\n"),
        ("x=b; cat <<E\na $x $((1+1)) `echo c`\nE", 0, "a b 2 c\n"),
        ("cat <<'E' | tr a-z A-Z\n$x\nE", 0, "$X\n"),
        ("unset x; echo ${x:-a} ${x:=b} ${x:+c} ${#x} ${x%b}", 0, "a b c 1\n"),
        (
            "p=/a/b.tar.gz; echo ${p##*/} ${p%/*} ${p%%.*} ${p#/a}",
            0,
            "b.tar.gz /a /a/b /b.tar.gz\n",
        ),
        ("set -- 'a b' c; for i in \"$@\"; do echo $i; done; echo $#", 0, "a b\nc\n2\n"),
        ("mkdir /d; cd /d; touch b a; echo *; echo 'x*' y*; ls", 0, "a b\nx* y*\na\nb\n"),
        ("IFS=:; for i in $(echo a:b); do echo $i; done", 0, "a\nb\n"),
        ("eval 'x=1; echo $x'; echo 'y=2' > /e; . /e; echo $y", 0, "1\n2\n"),
        ("while getopts ab: o -a -b v; do echo $o$OPTARG; done", 0, "a\nbv\n"),
        # Processes
        ("sleep 9 & kill $!; wait $!; echo $?", 0, "143\n"),
        ("(sleep 1; exit 3) & wait $!; echo $?", 0, "3\n"),
        ("trap 'echo T' TERM; kill $$; echo after", 0, "T\nafter\n"),
        ("(sleep 1; kill $$) & trap 'echo T; exit 4' TERM; wait", 4, "T\n"),
        ("timeout 1 sleep 9; echo $?; timeout 9 true; echo $?", 0, "143\n0\n"),
        ("cat /tmp/none 2>/dev/null || echo none; ls /nope 2>&1 | wc -l", 0, "none\n1\n"),
        ("exec 3>/tmp/o; echo x >&3; exec 3>&-; cat /tmp/o", 0, "x\n"),
        ("printf 'a b\\nc d\\n' | while read x y; do echo $y; done", 0, "b\nd\n"),
        ("echo 'echo $1; exit 6' > /run.sh; sh /run.sh arg", 6, "arg\n"),
        ("printf '#!/bin/sh\\necho ran\\n' > /r; chmod +x /r; /r; /r | cat", 0, "ran\nran\n"),
    ],
)
def test_scripts_have_the_output_of_a_shell(script: str, code: int, out: str) -> None:
    assert sh(script)[:2] == (code, out)


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("nope", 127, "sh: nope: not found\n"),
        ("/etc/passwd", 126, "sh: /etc/passwd: Permission denied\n"),
        ("vi", 1, "vi: not simulated by the embedded kubelet\n"),
        ("ls -Z", 1, "ls: option -Z: not simulated by the embedded kubelet\n"),
        ("ls -?", 1, "ls: unrecognized option: ?\n"),
        ("find . -exec rm", 1, "find: -exec: not simulated by the embedded kubelet\n"),
        ("sed ':a'", 1, "sed: command :: not simulated by the embedded kubelet\n"),
        ("alias a=b", 2, "sh: alias: line 0: not simulated by the embedded kubelet\n"),
        ("wget https://x", 1, "wget: https: not simulated by the embedded kubelet\n"),
        ("exit abc", 2, "sh: exit: line 0: Illegal number: abc\n"),
        ("set -u; echo $zz", 2, "sh: zz: parameter not set\n"),
        ("cat < /nope", 1, "sh: can't open /nope: no such file\n"),
        ("echo > /nope/x", 1, "sh: can't create /nope/x: nonexistent directory\n"),
        ("echo $((1/0))", 2, "sh: divide by zero\n"),
        ("x=x; echo $((x))", 2, "sh: expression recursion loop detected\n"),
        ("echo 'a", 2, "sh: syntax error: unterminated quoted string\n"),
        ("if true; then echo", 2, 'sh: syntax error: unexpected end of file (expecting "fi")\n'),
        ("mkdir /$(seq -s '' 99)", 0, ""),
        (
            f"mkdir /{'a' * 256}",
            1,
            f"mkdir: can't create directory '/{'a' * 256}': File name too long\n",
        ),
        (f"cat /{'a/' * 2048}", 1, f"cat: can't open '/{'a/' * 2048}': File name too long\n"),
        (f"mkdir -p /{'a/' * 2000}", 0, ""),
        ("fi", 2, 'sh: syntax error: unexpected "fi"\n'),
        ("! ! true", 2, 'sh: syntax error: unexpected "!"\n'),
        ("f() " * 99 + "{ :; }", 2, "sh: syntax error: nested more than 60 levels deep\n"),
        ("x=(1 2)", 2, 'sh: syntax error: unexpected "("\n'),
        ("cat <(ls)", 2, 'sh: syntax error: unexpected "("\n'),
        ("echo $(a", 2, 'sh: syntax error: unexpected end of file (expecting ")")\n'),
        ("set -x; a=1; echo $a b\\ c >/dev/null", 0, "+ a=1\n+ echo 1 'b c'\n"),
        ("sleep 9 & kill $!; wait $!", 143, "Terminated\n"),
    ],
)
def test_error_messages_are_busyboxs(script: str, code: int, err: str) -> None:
    found = sh(script)
    assert (found[0], found[2]) == (code, err)


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("awk 'BEGIN { print " + "(" * 10_000 + "1" + ")" * 10_000 + " }'", 1,
         "awk: nested too deeply\n"),
        ("awk 'BEGIN { print " + "!" * 10_000 + "1 }'", 1, "awk: nested too deeply\n"),
        ("awk 'BEGIN " + "{" * 10_000 + "}" * 10_000 + "'", 1, "awk: nested too deeply\n"),
        ("sed '" + "{" * 10_000 + "p" + "}" * 10_000 + "'", 1, "sed: nested too deeply\n"),
        ("test " + "\\( " * 10_000 + "1 " + "\\) " * 10_000, 2, "sh: nested too deeply\n"),
        ("test " + "! " * 10_000 + "1", 2, "sh: nested too deeply\n"),
        ("expr " + "\\( " * 10_000 + "1 " + "\\) " * 10_000, 2, "expr: nested too deeply\n"),
        ("echo $((" + "(" * 10_000 + "1" + ")" * 10_000 + "))", 2,
         "sh: arithmetic syntax error\n"),
        ("( " * 10_000 + ":" + " )" * 10_000, 2,
         "sh: syntax error: nested more than 60 levels deep\n"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)  # fmt: skip
def test_programs_nested_too_deeply_have_an_error(script: str, code: int, err: str) -> None:
    found = sh(script)
    assert (found[0], found[2]) == (code, err)


def test_errors_in_files_have_line_numbers() -> None:
    script = "echo 'true\nnope\ncd /nowhere' > /s; sh /s"
    assert sh(script)[2] == (
        "/s: line 2: nope: not found\n"
        "/s: cd: line 3: can't cd to /nowhere: No such file or directory\n"
    )


def test_programs_take_real_time() -> None:
    harness = ContainerHarness("sh", "-c", "sleep 2 && sleep 1m; exit 5")
    harness.clock.advance(61.9)
    assert harness.container.running
    harness.clock.advance(0.2)
    assert harness.container.status.exit_code == 5


def test_sigterm_is_trapped_after_the_foreground_program() -> None:
    harness = ContainerHarness("sh", "-c", "trap 'exit 7' TERM; sleep 10; echo no")
    harness.clock.advance(1)
    harness.container.stop(30)
    harness.clock.advance(1)
    assert harness.container.running
    harness.clock.advance(9)
    assert harness.container.status.exit_code == 7
    assert list(harness.log) == []


def test_sigterm_ends_a_wait_at_once() -> None:
    harness = ContainerHarness("sh", "-c", "trap 'exit 0' TERM; sleep 100 & wait")
    harness.clock.advance(1)
    harness.container.stop(30)
    harness.clock.advance()
    assert harness.container.status.exit_code == 0


def test_process_1_without_a_trap_ignores_sigterm() -> None:
    harness = ContainerHarness("sh", "-c", "sleep 100")
    harness.container.stop(2)
    harness.clock.advance(1.9)
    assert harness.container.running
    harness.clock.advance(0.2)
    assert harness.container.status.exit_code == 137


def test_process_1_cannot_be_killed_from_inside() -> None:
    harness = ContainerHarness("sh", "-c", "sleep 100")
    assert take_output(harness.run("sh", "-c", "kill -9 1; echo $?"))[1] == b"0\n"
    assert harness.container.running


def test_tail_follows_another_process() -> None:
    harness = ContainerHarness("sh", "-c", "touch /log; tail -f /log")
    harness.sh("echo a >> /log")
    harness.clock.advance(2)
    assert [line for _, line in harness.log] == [b"a\n"]


def test_an_interactive_shell_survives_ctrl_c() -> None:
    harness = ContainerHarness()
    session = harness.container.run(["sh"], stdin=True, tty=True)
    assert session.stdin is not None
    session.stdin.send(b"sleep 99\r")
    harness.clock.advance()
    session.stdin.send(b"\x03")
    harness.clock.advance()
    session.stdin.send(b"echo $?; exit 3\r")
    harness.clock.advance()
    assert b"130\r\n" in take_output(session)[1]
    assert session.output.code == 3


@pytest.mark.parametrize(
    ("name", "known"),
    [("sleep", True), ("/bin/ls", True), ("vi", True), ("foo", False), ("/opt/sleep", False)],
)
def test_every_applet_of_busybox_is_known(name: str, known: bool) -> None:
    assert is_busybox_program(name) is known


def test_parse_refuses_trailing_tokens() -> None:
    with pytest.raises(ShellSyntaxError, match=r'^unexpected "\)"$'):
        [*parse("echo a)")]
