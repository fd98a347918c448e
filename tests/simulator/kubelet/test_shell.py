from __future__ import annotations

import math

import pytest

from pytest_kwait.simulator.kubelet.launching import run_program, shell_of
from pytest_kwait.simulator.kubelet.processes import Job, Pause, Surroundings, Write
from pytest_kwait.simulator.kubelet.programs import is_busybox_program
from pytest_kwait.simulator.kubelet.shell import Shell
from pytest_kwait.simulator.kubelet.shell_syntax import ShellSyntaxError, parse

# 2001-09-09T01:46:40Z
_NOW = 1e9
_MOST_EFFECTS = 100


class Outcome:
    """What a process did: stdout, stderr, its pauses, its exit code (None: it went on)."""

    def __init__(self, argv: list[str], **env: str) -> None:
        self.around = Surroundings(lambda: _NOW, env, {"/etc/hosts": b"localhost\n"}, "host-0")
        self.out, self.err, self.pauses = "", "", [0.0][:0]
        self.code: int | None = None
        process = run_program(self.around, argv)
        for _ in range(_MOST_EFFECTS):
            try:
                effect = next(process)
            except StopIteration as end:
                self.code = end.value
                return
            if isinstance(effect, Pause):
                self.pauses.append(effect.seconds)
                if effect.seconds == math.inf:
                    return
            elif isinstance(effect, Write):
                text = effect.data.decode()
                self.out, self.err = (
                    (self.out + text, self.err)
                    if effect.stream == 1
                    else (self.out, self.err + text)
                )


def sh(script: str, **env: str) -> Outcome:
    return Outcome(["sh", "-c", script], **env)


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        ("exit 3", 3, ""),
        ("exit 300", 44, ""),
        ("false; exit", 1, ""),
        ("echo hi; exit 3", 3, "hi\n"),
        ("true && echo a || echo b", 0, "a\n"),
        ("false && echo a || echo b", 0, "b\n"),
        ("! true", 1, ""),
        ("! false && echo yes", 0, "yes\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", 0, "b\n"),
        ("if false; then echo a; fi; echo $?", 0, "0\n"),
        ("for x in a 'b c'; do echo $x; done", 0, "a\nb c\n"),
        ("for x in 1 2 3; do if [ $x = 2 ]; then continue; fi; echo $x; done", 0, "1\n3\n"),
        ("for x in 1 2 3; do if [ $x = 2 ]; then break; fi; echo $x; done", 0, "1\n"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", 0, "3\n"),
        ("i=3; until [ $i -le 1 ]; do i=$((i - 1)); done; echo $i", 0, "1\n"),
        ("{ echo a; false; }", 1, "a\n"),
        ("(exit 4); echo $?", 0, "4\n"),
        ("x=1; (x=2; echo $x); echo $x", 0, "2\n1\n"),
        ("echo $(echo a; echo b)", 0, "a b\n"),
        ('echo "$(echo a; echo b)"', 0, "a\nb\n"),
        ("echo `hostname`", 0, "host-0\n"),
        ("echo $((7 / 2)) $((-7 % 3)) $((2 * (3 + 4))) $((3 > 2))", 0, "3 -1 14 1\n"),
        ("echo ${X:-unset} $X ${HOME} ${X-x}", 0, "unset /root x\n"),
        ("X='a  b'; echo $X; echo \"$X\"", 0, "a b\na  b\n"),
        ("echo '$HOME' \\$HOME \"\\$HOME\"", 0, "$HOME $HOME $HOME\n"),
        ("echo a # b\necho c", 0, "a\nc\n"),
        ("echo -n a; echo -e 'b\\tc'", 0, "ab\tc\n"),
        ("printf '%s-%d\\n' a 1 b 2", 0, "a-1\nb-2\n"),
        ("printf '100%%\\n'", 0, "100%\n"),
        ("echo a > /tmp/f; echo b >> /tmp/f; cat /tmp/f", 0, "a\nb\n"),
        ("cat < /etc/hosts", 0, "localhost\n"),
        ("for x in a b; do echo $x; done > /tmp/f; cat /tmp/f", 0, "a\nb\n"),
        ("echo lost > /dev/null", 0, ""),
        ("touch /tmp/f && [ -f /tmp/f ] && rm /tmp/f && [ ! -e /tmp/f ]", 0, ""),
        ("echo x > /d/f; [ -d /d ] && [ -s /d/f ] && ls /d", 0, "f\n"),
        ("[ a != b ] && [ -z '' ] && [ -n x ] && test 3 -ge 3", 0, ""),
        ("test 1 -eq 2", 1, ""),
        ("[ ]", 1, ""),
        ("date +%s", 0, "1000000000\n"),
        ("date -u +%Y-%m-%d", 0, "2001-09-09\n"),
        ("seq 3; seq 2 3; seq 4 -2 0", 0, "1\n2\n3\n2\n3\n4\n2\n0\n"),
        ("env | true", 2, ""),
        ("printenv HOME; printenv NOPE", 1, "/root\n"),
        ("set -e; false; echo no", 1, ""),
        ("set -e; false || true; if false; then :; fi; echo yes", 0, "yes\n"),
        ("exec echo gone; echo no", 0, "gone\n"),
        ("export A=1; echo $A; B=2 true; cd /; whoami; pwd", 0, "1\nroot\n/\n"),
        ("trap 'echo bye' EXIT; exit 5", 5, "bye\n"),
        ('echo "a" \\\n  b', 0, "a b\n"),
        ("sh -c 'exit 9'; echo $?", 0, "9\n"),
        ("busybox echo hi", 0, "hi\n"),
        ("", 0, ""),
    ],
)
def test_scripts_do_what_a_shell_does(script: str, code: int, out: str) -> None:
    outcome = sh(script, HOME="/root")
    assert (outcome.code, outcome.out) == (code, out)


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("echo oops >&2", 0, "oops\n"),
        ("cat /nope", 1, "cat: can't open '/nope': No such file or directory\n"),
        ("cat /nope 2>/dev/null", 1, ""),
        ("nope", 127, "sh: nope: not found\n"),
        ("wget example.org", 1, "wget: not simulated by the embedded kubelet\n"),
        ("sleep abc", 1, "sleep: invalid number 'abc'\n"),
        ("sleep", 1, "BusyBox: usage: sleep [N]...\n"),
        ("exit abc", 2, "sh: exit: line 0: Illegal number: abc\n"),
        ("rm /nope", 1, "rm: can't remove '/nope': No such file or directory\n"),
        ("rm -f /nope", 0, ""),
        ("ls /nope", 1, "ls: /nope: No such file or directory\n"),
        ("[ a -eq 1 ]", 2, "sh: a: bad number\n"),
        ("[ a", 2, "sh: missing ]\n"),
        ("test a b c", 2, "sh: b: unknown operand\n"),
        ("echo $((1/0))", 2, "sh: divide by zero\n"),
        ("echo $((1+))", 2, "sh: arithmetic syntax error\n"),
        ("cat < /nope", 1, "sh: can't open /nope: no such file\n"),
        ("seq x", 1, "BusyBox: usage: seq [FIRST [INC]] LAST\n"),
        ("printf", 2, "sh: usage: printf FORMAT [ARGUMENT...]\n"),
        ("echo 'a", 2, "sh: syntax error: unterminated quoted string\n"),
        ("a | b", 2, "sh: syntax error: pipes are not understood by the embedded kubelet\n"),
        (
            "cat <<EOF",
            2,
            "sh: syntax error: here-documents are not understood by the embedded kubelet\n",
        ),
        (
            "case a in a) echo;; esac",
            2,
            "sh: syntax error: case is not understood by the embedded kubelet\n",
        ),
        ("if true; then echo", 2, 'sh: syntax error: unexpected end of file (expecting "fi")\n'),
        ("fi", 2, 'sh: syntax error: unexpected "fi"\n'),
        ("; echo", 2, 'sh: syntax error: unexpected ";"\n'),
        ("echo >", 2, "sh: syntax error: unexpected end of file\n"),
        ("echo ${a/b}", 2, "sh: syntax error: bad substitution: ${a/b}\n"),
        ("echo $(a", 2, 'sh: syntax error: unexpected end of file (expecting ")")\n'),
    ],
)
def test_troubles_are_told_as_busybox_does(script: str, code: int, err: str) -> None:
    outcome = sh(script)
    assert (outcome.code, outcome.err) == (code, err)


@pytest.mark.parametrize(
    ("argv", "pauses", "code"),
    [
        (["sleep", "5"], [5.0], 0),
        (["sleep", "1m", "0.5"], [60.5], 0),
        (["sleep", "infinity"], [math.inf], None),
        (["/bin/sleep", "1h"], [3600.0], 0),
        (["usleep", "250000"], [0.25], 0),
        (["sh", "-c", "sleep 2 && sleep 3"], [2.0, 3.0], 0),
        (["tail", "-f", "/dev/null"], [math.inf], None),
        (["httpd", "-f"], [math.inf], None),
        (["sh", "-ec", "sleep 1; false; sleep 2"], [1.0], 1),
    ],
)
def test_programs_take_their_time(argv: list[str], pauses: list[float], code: int | None) -> None:
    outcome = Outcome(argv)
    assert (outcome.pauses, outcome.code) == (pauses, code)


def test_a_loop_without_pauses_does_not_spin() -> None:
    outcome = sh("while true; do :; done")
    assert outcome.code is None
    assert set(outcome.pauses) == {0.01}


def test_arguments_of_a_script_are_numbered() -> None:
    outcome = Outcome(["sh", "-c", "echo $0 $1 $2 $#", "me", "a", "b"])
    assert outcome.out == "me a b 2\n"


def test_a_file_can_be_run() -> None:
    assert sh("echo 'exit 6' > /run.sh; sh /run.sh").code == 6


def test_a_trap_runs_after_the_program_in_the_foreground() -> None:
    around = Surroundings(lambda: _NOW)
    shell, script = shell_of(around, ["sh", "-c", "trap 'exit 7' TERM; sleep 10; echo no"])
    process = shell.run(script)
    assert next(process) == Pause(10.0)
    assert shell.signal("TERM")
    with pytest.raises(StopIteration) as end:
        next(process)
    assert end.value.value == 7


def test_a_trap_ends_a_wait_at_once() -> None:
    around = Surroundings(lambda: _NOW)
    shell, script = shell_of(around, ["sh", "-c", "trap 'exit 0' TERM; sleep 100 & wait"])
    process = shell.run(script)
    assert isinstance(next(process), Job)
    assert next(process) == Pause(0.05)
    shell.signal("TERM")
    with pytest.raises(StopIteration) as end:
        next(process)
    assert end.value.value == 0


def test_wait_ends_with_the_job() -> None:
    around = Surroundings(lambda: _NOW)
    shell, script = shell_of(around, ["sh", "-c", "(exit 3) & wait; exit $?"])
    process = shell.run(script)
    job = next(process)
    assert isinstance(job, Job)
    with pytest.raises(StopIteration) as ended:
        next(job.process)
    job.code = ended.value.value
    with pytest.raises(StopIteration) as end:
        next(process)
    assert end.value.value == 3


def test_a_signal_without_trap_is_ignored() -> None:
    shell = Shell(Surroundings(lambda: _NOW))
    assert not shell.signal("TERM")


def test_a_trap_can_be_taken_back() -> None:
    shell = Shell(Surroundings(lambda: _NOW))
    with pytest.raises(StopIteration):
        next(shell.run("trap 'exit 1' 15; trap - TERM"))
    assert not shell.signal("TERM")


@pytest.mark.parametrize(
    ("name", "known"),
    [("sleep", True), ("/bin/ls", True), ("vi", True), ("foo", False), ("/opt/sleep", False)],
)
def test_busybox_knows_its_programs(name: str, known: bool) -> None:
    assert is_busybox_program(name) is known


def test_parse_refuses_what_is_left_over() -> None:
    with pytest.raises(ShellSyntaxError, match=r'^unexpected "\)"$'):
        parse("echo a)")
