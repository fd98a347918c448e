"""Scripts whose output and exit code must equal those of the machine's busybox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.examples import scaled
from tests.simulator.busybox.shell.busybox_oracle import (
    BusyboxOracle,
    find_missing_programs,
    run_simulated,
)
from tests.simulator.busybox.shell.generated_scripts import generate_scripts

if TYPE_CHECKING:
    from pathlib import Path

WHY_NOT = find_missing_programs()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> BusyboxOracle:
    folder: Path = tmp_path_factory.mktemp("judge")
    return BusyboxOracle(folder)


SCRIPTS = [
    # Line numbers start at 0 in `-c` and at 1 in a file.
    "cd none",
    "\ncd none; echo $LINENO\necho $LINENO; f() {\n echo $LINENO; cd none\n}\nf",
    "\neval \"\ncd none\necho \\$LINENO\"; echo $LINENO; cd none",
    "\nx=$(\ncd none\necho $LINENO\n); echo $x $LINENO; cd none",
    "cat <<E\na$((5%n))b\nE\necho $?", "cat <<E\n${x:?gone}\nE\necho $?",
    "while read a; do echo $a; done <<E\n${x?}\nE\necho $?",
    "set -e; cat <<E\n$((1/0))\nE\necho no",
    "echo `cd none\ncd none`\ncat <<E\n$(cd none)\nE\ncd none",
    "set -u; eval 'echo $z'",
    "eval 'nope; fi'",
    "eval 'nope'; nope",
    "echo 'nope\ncd none; echo $LINENO' > s; . ./s; nope",
    "echo 'echo $LINENO\nnope\neval nope\nf() {\nnope; }; f' > s; sh s",
    "local a=1; echo no",
    "break x; echo no",
    "shift 4; echo $?",
    "trap x y; echo $?",
    "readonly a; a=1; echo no",
    # Numbers of printf
    "printf '%d\\n'; echo $?",
    "printf '%d %s\\n' 3; printf '%x\\n' abc; echo $?",
    "printf '%d %d\\n' 1 '' 017; echo $?",
    "printf '%5s|%-5s|%05d|%c\\n' ab cd 42 xyz",
    "printf '%s-' a b c; printf '\\n%b' 'x\\ty\\n'",
    # Pipes, groups, redirections
    "seq 3 | while read x; do echo $x; [ $x = 2 ] && break; done; echo $?",
    "{ echo a; nope; } 2>&1 | sort; (exit 3) | cat; echo $?",
    "echo x 2>&1 >f; cat f; cat < none; echo $?; cat f none; echo $?",
    "exec 3>f; echo a >&3; echo b 1>&3; exec 3>&-; cat f; echo c >&3",
    "cat <<A; cat <<-B\n$((1+1)) `echo x`\nA\n\tb\n\tB\ncat <<'C'\n$x\nC",
    "echo a > f; echo b >> f; { read x; read y; read z; echo $? $x $y; } < f",
    "set -C; echo a > f; echo b > f; echo $?; echo c >| f; cat f",
    # Expansions
    "a=foo.tar.gz; echo ${a#*.} ${a##*.} ${a%.*} ${a%%.*}; echo ${a:1:2}",
    "a=foo.tar.gz; echo ${a: -2} ${a/o/0} ${a//o/0} ${#a}",
    "unset x; echo ${x-a} ${x:=b} ${x+c} \"${x:+d e}\"; echo ${y?gone}; echo no",
    "set -- 'a b' '' c; for i in \"$@\"; do echo \"<$i>\"; done; for i in $*; do echo $i; done",
    "IFS=:; x=a::b:; for i in $x; do echo \"<$i>\"; done; set -- $x; echo $# \"$*\"",
    "touch a1 a2 b; echo a* [!a]* c* \"a*\" 'a'*; set -f; echo a*",
    "x='*'; echo \"$x\"; case abc in a$x) echo no;; a*c) echo yes;; esac",
    "echo $((0x1f + 010 << 2)) $((7/-2)) $((-7%3)) $((1<2&&3>2)) $((2**10)) $((x=5, x++ + ++x)) $x",
    "echo $((1/0)); echo no",
    "echo $((1 +)); echo no",
    "x=x; echo $((x)); echo no",
    "echo \"a\\tb\" 'c\\nd' -n; echo -n x; echo -e '\\x41\\0101\\c'y",
    # Functions, loops, set -e, traps
    "f() { local x=2; echo $x $1 $#; return 4; }; x=1; f a b; echo $? $x",
    "for i in 1 2 3; do for j in 1 2 3; do [ $j = 2 ] && continue 2; echo $i$j; done; done",
    "set -e; if false; then :; fi; false || true; ! true; echo here; (false; echo no); echo no",
    "set -e; f() { false; echo in; }; f && echo and; x=$(false); echo no",
    "trap 'echo bye $?' EXIT; f() { exit 3; }; f",
    "trap 'echo T' TERM; kill -TERM $$; echo on; (kill -TERM $$); trap - TERM; trap",
    "trap 'echo E' EXIT; (trap 'echo S' EXIT; echo in); echo out",
    "set -x; x=1; echo $x 'a b'; f() { :; }; f 1",
    "sleep 1 & wait $!; echo $?; (exit 5) & wait $!; echo $?; wait; wait 99999; echo $?",
    "while getopts ab:c o -a -b v -x; do echo $o $OPTARG $OPTIND; done",
    "command -v echo sh f; type cd if nope; echo $?",
    # Syntax errors
    "if true; then echo", "fi", "echo 'a", "x=(1 2)", "echo $(a", "case x in", "echo ${a",
    "for 1 in x", "a() { ; }", "echo a | | b", "&& a", "cat <<E\nno end",
    "while; do :; done", "echo a; )",
    # Tests
    "[ a = a -a b != c ] && [ 1 -lt 2 -o x ] && [ ! -e f ] && [ ! ] ; echo $?",
    "[ a -eq 1 ]; echo $?; [ a b ]; echo $?; [ a; echo $?; test ]; echo $?; [ '(' a ')' ]; echo $?",
    "[ -n ]; echo $?; [ -z '' ]; echo $?; [[ abc == a* ]]; echo $?",
    # Programs
    "printf 'b\\na\\nc\\na\\n' > f; sort f; sort -u f; uniq f; sort -rn f",
    "printf 'b\\na\\nc\\na\\n' > f; grep -n a f; grep -c z f; echo $?",
    "seq 5 | sed -n '2,3p;$s/5/x/p'",
    "echo a.b | sed 's/\\(.\\)\\.\\(.\\)/\\2&\\1/'; seq 3 | tail -n +2",
    "ls none; mkdir d; touch d/x; ls d; rm d; rm -r d; mkdir a/b; mkdir -p a/b; rmdir a; echo $?",
    "echo a b | cut -d' ' -f2; echo abc | cut -c2-; echo abc | tr -d b",
    "echo aab | tr -s a; expr 1 + 2",
    "echo hi | wc; echo hi | wc -c; basename /a/b.c .c; dirname /a/b",
    "echo a | md5sum; head -n 0 none",
    "cp none x; mv none x; cat; echo a > f; cp f g; mv g h; cat h",
    "echo > f; chmod +x f; [ -x f ] && echo x; cut f",
    "echo 3 1 2 | xargs -n1 | sort | xargs; echo x | tee f; cat f; rev f; nope | cat; echo $?",
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_match_busybox(judge: BusyboxOracle, script: str) -> None:
    assert run_simulated(script) == judge.run(script)


@settings(
    # The same scripts each time; `busybox_oracle` runs for longer.
    max_examples=scaled(60),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(script=generate_scripts)
def test_generated_scripts_match_busybox(judge: BusyboxOracle, script: str) -> None:
    assert run_simulated(script) == judge.run(script)
