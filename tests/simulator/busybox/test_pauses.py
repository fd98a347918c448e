"""No program of a pod holds the event loop: the work of one step of it, in calls of functions.

A turn of the loop takes two steps of a process at least.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator.busybox.applets import APPLETS, load_applet
from pytest_kwait.simulator.busybox.os.process_table import ProcessTable
from pytest_kwait.simulator.busybox.shell.parser import parse
from tests.examples import scaled
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from pytest_kwait.simulator.busybox.os.syscalls import Task

MOST_CALLS = 30_000
"""Calls that take less than 30 ms."""
MOST_SEARCH_CALLS = 400_000
"""Calls of one search at its limit, an automaton's; most are cheap: it takes less than 70 ms."""
MANY = 20_000
FEW = 2_000
"""Enough of what takes many calls each: a step that does all of it makes more than the most."""
FILES = {
    "one": b"word abc:d " * MANY + b"\n",
    "lines": b"".join(b"line %d some words:here\n" % number for number in range(MANY)),
    "short": b"a\n" * MANY,
    "aa": b"a" * (3 * MANY) + b"\n",
}


class Steps:
    """Counts the calls of each step of a process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worst = 0
        run = ProcessTable._step
        events = 0

        def count(_frame: FrameType, _event: str, _arg: object) -> None:
            nonlocal events  # the start and the end of each call: no more is done for each
            events += 1

        def counted(table: ProcessTable, task: Task) -> bool:
            nonlocal events
            events = 0
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                return run(table, task)
            finally:
                sys.setprofile(before)
                self.worst = max(self.worst, events // 2)

        monkeypatch.setattr(ProcessTable, "_step", counted)


@pytest.fixture(autouse=True, scope="module")
def _applets() -> None:
    """Imports are no work of a program."""
    for name in APPLETS:
        load_applet(name)


@pytest.fixture
def steps() -> Iterator[Steps]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Steps(monkeypatch)


def run_script(script: str, **files: bytes) -> tuple[str, int | None]:
    """Return the output of a script, which may take long, and its exit code."""
    contents: dict[str, Any] = {**files}
    harness = ContainerHarness(**contents)
    session = harness.run("sh", "-c", script)
    while session.output.code is None:
        harness.clock.advance(1)
    return take_output(session)[1].decode(), session.output.code


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("""awk '{n=gsub(/a/,"[&]")} END{print n}' /one""", "20000\n"),
        ("awk '{n=split($0,x,/[ab]/)} END{print n}' /one", "40001\n"),
        ("""awk '{n=split($0,x,"a")} END{print n, x[2]}' /one""", "20001 bc:d word \n"),
        ("awk -F'[ab]' '{print NF}' /one", "40001\n"),
        ("awk '{print NF, $3}' /one", "40000 word\n"),
        ("awk 'BEGIN{RS=\"a\"} {n++} END{print n}' /aa", "60001\n"),
        ("awk '/^lime/ {n++} END{print n+0}' /lines", "0\n"),
        ("awk '{n+=length($0 NR)} END{print n}' /short", "108894\n"),
        ("""awk 'BEGIN{for(i=0;i<2000;i++)a[i]; for(k in a) n++; print n}'""", "2000\n"),
        ("""awk "BEGIN{print $(seq -s ', ' 3000)}" | wc -w""", "3000\n"),
        ("""awk "BEGIN{$(seq -s ';' 3000)}" """, ""),
        ("""seq 2000 | sed 's/.*/{n+=&}/' > /p; awk -f /p /none; echo $?""", "2\n"),
        ("""awk "BEGIN{x=\\"$(sed 's/a/\\\\\\\\n/g' /aa)\\"; print length(x)}" """, "120000\n"),
        ("""awk 'BEGIN{f="%d"; while(length(f)<99999) f=f f; print length(sprintf(f))}'""",
         "65536\n"),
        ("sort -n -k2 /lines | tail -n1", "line 19999 some words:here\n"),
        ("sort -u /short", "a\n"),
        ("sort -r /short | wc -l", "20000\n"),
        ("tac /short | wc -l", "20000\n"),
        ("head -n -5 /short | wc -l; head -n-5 /short | wc -l", "19995\n19995\n"),
        ("tail -n 15000 /short | wc -l; tail -n +5 /short | wc -l", "15000\n19996\n"),
        ("uniq -c /short", "  20000 a\n"),
        ("rev /short | wc -l; wc -L /short", "20000\n1 /short\n"),
        ("cut -c1,3,5-6 /one; cut -d: -f2,4 /one; cut -d: -f20001 /one",
         "wr a\nd word abc:d word abc\nd \n"),
        ("cut -c$(seq -s, 1 2 5000) /one | wc -c", "2501\n"),
        ("base64 -w 1 /one | wc -l; base64 /one | base64 -d | wc -c", "293336\n220001\n"),
        ("hexdump -C /one | tail -n1; hexdump -C /aa", None),
        ("tr a-z b-y < /one | wc -c; tr -d a < /aa; tr -s a < /aa", "220001\n\na\n"),
        ("cat -n /short | tail -n1", " 20000\ta\n"),
        ("seq 50000 | tail -n1; seq -s '' 50000 | wc -c", "50000\n238895\n"),
        ("printf '%s\\n' $(seq 3000) | tail -n1", "3000\n"),
        ("expr $(seq -s ' + ' 9999)", "49995000\n"),
        ("test $(seq -s ' -o ' 9999) && echo so", "so\n"),
        ("echo $(($(seq -s + 9999)))", "49995000\n"),
        ("x=$(cat /one); echo ${x//a/b} | wc -c; x=${x//:}; echo ${#x}", "220000\n200000\n"),
        ("x=$(cat /one); set -- $x; echo $#; case $x in *b*q*) echo so;; esac", "40000\n"),
        ("IFS=: read a b < /one; echo ${#a} ${#b}; IFS=: read -r a b < /one; echo ${#b}",
         "8 219991\n219991\n"),
        ("read a < /one; echo ${#a}; sed 's/./\\\\&/g' /aa > /b; read a b < /b; echo ${#a}",
         "219999\n60000\n"),
        ("grep -o a /one | wc -l; grep -c a /short; grep -v x /short | wc -l",
         "20000\n20000\n20000\n"),
        ("sed 's/a/b/g' /one | grep -c a; sed y/a/b/ /one | grep -c a", "0\n0\n"),
        ("sed -n '$p' /short; sed s/a/b/2 /aa | cut -c1-3", "a\naba\n"),
        ("cat $(seq 2000) 2>&1 | wc -l; rm -f $(seq 2000); ls $(seq 2000) 2>&1 | wc -l",
         "2000\n2000\n"),
        ("set -- $(seq 3000); rm -$(printf f%.0s $@) x; echo $?", "0\n"),
        ("cd /tmp; touch $(seq 2000); ls | wc -l; ls -l | wc -l; find . -name '*7*' | wc -l",
         "2000\n2001\n542\n"),
        ("cd /tmp; touch $(seq 2000); echo * | wc -w; echo *1*1 | wc -w; du -s . | wc -l",
         "2000\n119\n1\n"),
        ("cd /tmp; touch $(seq 2000); cp -r . /b; grep -r a /b; rm -r *; ls | wc -l; ls /b | wc -l",
         "0\n2000\n"),
        ("x=$(cat /aa); case $x in \"$x\") echo so;; esac", "so\n"),
        ("x=$(cat /aa); case $x in *\"$x\"?) ;; *) echo so;; esac", "so\n"),
        ("x=$(yes '[ab]' | head -n 20000); case a in $x) ;; *) echo so;; esac", "so\n"),
        ("x=$(yes '?' | head -n 20000); case a in *$x) ;; *) echo so;; esac", "so\n"),
        ("printf \"$(yes %% | head -n 20000 | tr -d '\\n')\" | wc -c", "20000\n"),
        ("printf '%b' \"$(yes '\\n' | head -n 20000)\" | wc -l", "39999\n"),
        ("echo -e \"$(yes '\\n' | head -n 20000)\" | wc -l", "40000\n"),
        ("tr \"$(cat /aa)\" b < /aa | wc -c", "60001\n"),
        ("let $(seq 3000); wait $(seq 3000); unset $(seq -s ' a' 3000) 2>/dev/null", ""),
        ("export $(seq 3000 | sed 's/.*/a&=/'); env | wc -l; (env | wc -l)", None),
        ("seq 2000 | xargs -I X echo X | tail -n1; seq 2000 | xargs -n1 | wc -l", "2000\n2000\n"),
        ("xargs echo < /one | wc -w; xargs -n 9000 echo < /one | wc -l", "40000\n5\n"),
    ],
)  # fmt: skip
def test_no_program_holds_the_loop(steps: Steps, script: str, shown: str | None) -> None:
    assert shown is None or run_script(script, **FILES)[0] == shown
    if shown is None:
        assert run_script(script, **FILES)[1] == 0
    assert steps.worst < MOST_CALLS


def names(form: str) -> str:
    return "".join(form.format(number) for number in range(MANY))


def nest(start: str, middle: str, end: str, depth: int = 50) -> str:
    return start * depth + middle + end * depth


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (":;" * FEW + "echo so", "so\n"),
        (": &&" * FEW + " echo so", "so\n"),
        ("false ||" * FEW + " echo so", "so\n"),
        (":" + " a" * MANY + "; echo so", "so\n"),
        (":" + " " * 50 * MANY + "; echo so", "so\n"),
        (":" + " \\\n" * MANY + "; echo so", "so\n"),
        ("# a\n" * MANY + "echo so", "so\n"),
        ("\n" * MANY + "echo so", "so\n"),
        ("x=" + "a" * 10 * MANY + "; echo ${#x}", "200000\n"),
        ("x=" + "\\a" * MANY + "; echo ${#x}", "20000\n"),
        ("x=" + "'a'\"b\"" * MANY + "; echo ${#x}", "40000\n"),
        ('x="' + "\\$" * MANY + '"; echo ${#x}', "20000\n"),
        ("x=$'" + "\\n" * MANY + "'; echo ${#x}", "20000\n"),
        ("y=a; x=" + "$y" * MANY + "; echo ${#x}", "20000\n"),
        ('y=a; x="' + "$y" * MANY + '"; echo ${#x}', "20000\n"),
        ("y=a; x=" + "${y:-'b'}" * MANY + "; echo ${#x}", "20000\n"),
        ("x=${x:-" + "{" * MANY + "}; echo ${#x}", "20000\n"),
        ('x="${x:-' + "{" * MANY + '}"; echo ${#x}', "20000\n"),
        ("echo `echo " + "\\\\" * MANY + " | wc -c`", "10001\n"),
        ("echo $(echo " + nest('"$(echo ', "so", ')"', 10) + ")", "so\n"),
        ("echo $(" + ":;" * FEW + "echo so)", "so\n"),
        ("echo $((" + "1+" * MANY + "1))", "20001\n"),
        ("echo $((" + "(1)+" * MANY + "1))", "20001\n"),
        ("echo $(" + nest("(", ":", ")", 20) + "; echo so)", "so\n"),
        ("wc -c <<E\n" + "a\n" * MANY + "E\n", "40000\n"),
        ("wc -c <<'E'\n" + "a\n" * MANY + "E\n", "40000\n"),
        ("x=a; wc -c <<E\n" + "$x\n" * MANY + "E\n", "40000\n"),
        ("case b in " + "a|" * MANY + "b) echo so;; esac", "so\n"),
        ("case b in " + "a) ;; " * FEW + "b) echo so;; esac", "so\n"),
        ("for x in " + "a " * FEW + "; do :; done; echo so", "so\n"),
        ("if false; then :; " + "elif false; then :; " * FEW + "else echo so; fi", "so\n"),
        ("f() { " + ":;" * FEW + "echo so; }; f", "so\n"),
        ("echo so " + "2>/dev/null " * 1_000, "so\n"),
        ("a=1 " * MANY + "; echo $a", "1\n"),
        (names("a{}=1 ") + "; echo $a9", "1\n"),
        (names("a{}=1 ") + "cd /; echo $a9", "\n"),
        (names("a{}=1 ") + "nope; echo $?", "127\n"),
        ("set -x; : " + "a " * MANY + "; echo so", "so\n"),
        ("set -x; : " + "a" * 10 * MANY + "; echo so", "so\n"),
        (nest("{ ", "echo so", "; }", 25), "so\n"),
    ],
    ids=lambda script: script[:12].strip(),
)
def test_no_script_holds_the_loop(steps: Steps, script: str, shown: str) -> None:
    assert run_script(script)[0] == shown
    assert steps.worst < MOST_CALLS


def _put_in_backquotes(line: str) -> str:
    """Return a command whose argument is the output of a line."""
    return ": `" + line.replace("\\", "\\\\").replace("`", "\\`") + "`"


_LINES = st.recursive(
    st.sampled_from(
        [":", "a=1", "x=${x%a*}", ': "$x"b', "case $x in *) ;; esac", ": `:`", "! :", ": $((1+1))"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("; ".join),
        st.tuples(st.sampled_from(["{{ {}; }}", "({})", ": $({})", "! {{ {}; }}"]), inner)
        .map(lambda pair: pair[0].format(pair[1])),
        inner.map(_put_in_backquotes),
    ),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=scaled(30), deadline=None)
@given(line=_LINES, joint=st.sampled_from([";", "&&", "||", "\n"]), count=st.integers(1, 2_000))
def test_no_line_holds_the_loop(line: str, joint: str, count: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        steps = Steps(monkeypatch)
        assert run_script("x=ba; " + joint.join([line] * count) + "; exit 3")[1] == 3
    assert steps.worst < MOST_CALLS


class Script(str):
    """A script that counts the characters of its parts."""

    __slots__ = ("copied",)

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        part = super().__getitem__(index)
        self.copied = getattr(self, "copied", 0) + len(part)
        return part


def test_a_long_here_document_is_read_once() -> None:
    script = Script("cat <<'E'\n" + "a line\n" * 5_000 + "E\n")
    assert len([*parse(script)]) == 5
    assert script.copied < 2 * len(script)


_PATTERNS = st.lists(
    st.sampled_from(["a", "b", "(a|b)*", "a*", "[ab]+", ".", "(a|ab)(b|)*", "x?", "$", "^", "a+"]),
    min_size=1,
    max_size=6,
).map("".join)
_PROGRAMS = st.sampled_from(
    [
        "grep -cE '{}' /text",
        "grep -oE '{}' /text",
        "sed -E 's/{}/<&>/g' /text",
        "awk '{{n+=gsub(/{}/,\"-\")}} END{{print n}}' /text",
        "awk '{{n+=split($0,x,/{}/)}} END{{print n}}' /text",
        "awk -F'{}' '{{print NF}}' /text",
        "awk '$0 ~ /{0}/ && !match($0, /{0}/)' /text",
        "x=$(cat /text); case $x in *{}*) echo so;; esac",
        "x=$(cat /text); echo ${{x//{}/-}}; echo ${{x%%{}*}}",
        "expr \"$(cat /text)\" : '{}'",
    ]
)


@settings(max_examples=scaled(60), deadline=None)
@example(program="grep -oE '{}' /text", pattern="(a|b)*", line="a", count=5000)
@given(
    program=_PROGRAMS,
    pattern=_PATTERNS,
    line=st.text("abx\n", min_size=1, max_size=20),
    count=st.sampled_from([1, 50, 5000]),
)
def test_no_pattern_holds_the_loop(program: str, pattern: str, line: str, count: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        steps = Steps(monkeypatch)
        text = (line * count).encode()
        run_script(program.format(*[pattern] * 2), text=text)
    assert steps.worst < MOST_SEARCH_CALLS
