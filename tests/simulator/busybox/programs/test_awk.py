"""`awk` of simulated containers; the results are those of mawk 1.3.4."""

from __future__ import annotations

import pytest

from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

_DATA = b"""\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:n o:/:/bin/false

last line 3 4.5
"""


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("'{print $1}'", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:n\n\nlast\n"),
        ("{'print $1'}", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:n\n\nlast\n"),
        ("'{print NF, NR, $NF}' | tail -n1", "4 4 4.5\n"),
        ("-F: '{print $1, $3+1}'", "root 1\nnobody 65535\n 1\nlast line 3 4.5 1\n"),
        ("-F'[:/]' '{print $2, NF}'", "x 10\nx 10\n 0\n 1\n"),
        ("-F: '$3>10{print $1}'", "nobody\n"),
        ("'!/o/'", "\nlast line 3 4.5\n"),
        ("'NR==2,NR==3{print NR\": \"$1}'", "2: nobody:x:65534:65534:n\n3: \n"),
        ("'NF{c++} END{print c+0, NR}'", "3 4\n"),
        ("-F: '{s+=$3} END{print s, s/NR}'", "65534 16383.5\n"),
        ("'{ l[NR]=$NF } END { for (i=NR; i>2; i--) print l[i] }'", "4.5\n\n"),
        ("-F: '!seen[$2]++ {print $2}'", "x\n\n"),
        ('\'$3 ~ /^[0-9]+$/ || $1 == "root" { print "num", $3 }\'', "num 3\n"),
        ("'{$2=\"X\"} END{print; print NF}'", "last X 3 4.5\n4\n"),
        ("'BEGIN{OFS=\"-\"} NR==4{$1=$1; print}'", "last-line-3-4.5\n"),
        ("'{gsub(/o/,\"[&]\")} NR==1'", "r[o][o]t:x:0:0:r[o][o]t:/r[o][o]t:/bin/sh\n"),
        ('\'BEGIN{RS=""}{print NR":"$1}\'', "1:root:x:0:0:root:/root:/bin/sh\n2:last\n"),
        ("'BEGIN{RS=\":\"} NR<4'", "root\nx\n0\n"),
        ("'NR==1{next} NR==3{exit} {print NR}'", "2\n"),
        ("'FNR==1{n++} END{print n, FILENAME}' /data", "2 /data\n"),
        ("'END{print x, y}' x=1 y=two", "1 two\n"),
    ],
)
def test_records_and_fields(program: str, shown: str) -> None:
    words = program.partition(" | ")
    command = f"awk {words[0]} /data{words[1]}{words[2]}"
    assert ContainerHarness(data=_DATA).sh(command) == shown


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            'print 1==1.0, "a"<"b", 10<9, "10"<"9", 2^3^2, -2^2, 7%3, 1/4',
            "1 1 0 1 512 -4 1 0.25",
        ),
        ("print 1e6, 0.1+0.2, 100000000000000000000", "1000000 0.3 1e+20"),
        ("x=5; x+=2; x*=3; x-=1; x/=4; x%=3; x^=2; print x", "4"),
        ("i=5; print i++ i, i--, -i", "56 6 -5"),
        ('print "a" "b" 1+2 "c"', "ab3c"),
        (
            'print length("abc"), substr("hello",2,3), index("hello","l"), toupper("aB")',
            "3 ell 3 AB",
        ),
        (
            'printf "%5.2f|%-5s|%05d|%x|%c|%%", 3.14159, "ab", 42, 255, "z"',
            " 3.14|ab   |00042|ff|z|%",
        ),
        ('printf("%d %s", 3, "x")', "3 x"),
        ('n=split("a1b22c",p,/[0-9]+/); print n, p[3], split("", q)', "3 c 0"),
        ('if (match("foobar",/o+/)) print RSTART, RLENGTH', "2 2"),
        ('s="banana"; print gsub(/a/,"<&\\\\&>",s), s', "3 b<a&>n<a&>n<a&>"),
        (
            'x["a","b"]=1; if (("a","b") in x) print "yes"; delete x["a","b"]; print length(x)',
            "yes\n0",
        ),
        ("while(i<3){i++; if(i==2)continue; print i}", "1\n3"),
        ("do{i++; if (i==4) break}while(1); print i", "4"),
        ('for(i=0;i<3;i++) printf "%d-%s;", i, i*i', "0-0;1-1;2-4;"),
        ("a[1]; a[2]; for(i=1;i in a;i++) print i; for (k in a) n+=k; print n", "1\n2\n3"),
        ('print (1>2) ? "a" : "b"', "b"),
        ('$0="a b c"; print NF, $2; NF=2; print $0', "3 b\na b"),
        ('$3="z"; print; print NF', "  z\n3"),
        ("print int(3.9), int(-3.9), sqrt(16), exp(0), log(1)", "3 -3 4 1 0"),
        ('print ENVIRON["HOME"], ENVIRON["NOPE"] "x"', "/root x"),
        ("# comment\nif (1)\n print 1\nelse print 2", "1"),
        ('print "a\\tb\\\\c\\"d"', 'a\tb\\c"d'),
    ],
)
def test_expressions_and_statements(body: str, shown: str) -> None:
    assert ContainerHarness().sh(f"awk 'BEGIN {{{body}}}'").removesuffix("\n") == shown


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        ("awk", 1, "BusyBox: usage: awk [-F SEP] [-v VAR=VAL] [-f FILE] [PROGRAM] [FILE]...\n"),
        ("awk '{print'", 1, "awk: cmd. line:1: Unexpected token\n"),
        ("awk 'BEGIN{print 1/0}'", 1, "awk: cmd. line:1: Division by zero\n"),
        ("awk 1 /none", 2, "awk: /none: No such file or directory\n"),
        ("awk 'BEGIN{exit 3}'", 3, ""),
        ("awk 'BEGIN{exit 3} END{exit}'", 3, ""),
        (
            "awk 'BEGIN{system(\"ls\")}'", 1,
            "awk: system: not simulated by the embedded kubelet\n",
        ),
        (
            "awk 'BEGIN{print > \"x\"}'", 1,
            "awk: redirection: not simulated by the embedded kubelet\n",
        ),
        (
            "awk 'BEGIN{printf \"%99999999d\", 1}'", 1,
            "awk: cmd. line:1: Invalid format specifier\n",
        ),
    ],
)  # fmt: skip
def test_errors(command: str, code: int, why: str) -> None:
    session = ContainerHarness().run("sh", "-c", command)
    assert (take_output(session)[2].decode(), session.output.code) == (why, code)


def test_an_endless_program_blocks_nothing() -> None:
    harness = ContainerHarness()
    session = harness.run("timeout", "2", "awk", "BEGIN{while(1) n++}")
    harness.clock.advance(3)
    assert session.output.code == 143


@pytest.mark.parametrize(
    ("joint", "shown"), [("+", "20001"), ("-", "-19999"), (" ", "1" * 9), ("&&", "1"), ("||", "1")]
)
def test_expressions_of_many_terms(joint: str, shown: str) -> None:
    program = "BEGIN { print substr(1" + f"{joint}1" * 20_000 + ", 1, 9) }"
    harness = ContainerHarness(p=program.encode())
    session = harness.run("awk", "-f", "/p")
    while session.output.code is None:
        harness.clock.advance(1)
    assert take_output(session)[1].decode() == f"{shown}\n"
    assert session.output.code == 0
