"""Random shell scripts whose output does not depend on timing."""

from __future__ import annotations

from hypothesis import strategies as st

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_FILES = st.sampled_from(["f", "g", "h.txt", "none/x"])
_TEXTS = st.sampled_from(
    ["", "x", "foo", "a b", "  lead", "3", "07", "-1", "a:b:c", "foo.tar.gz", "/a/b/c", "*", "a\\b",
     "h*", "[x]", "~", "%", "-n", "$", "é"]
)  # fmt: skip
_PATTERNS = st.sampled_from(["*", "?", "a*", "*.*", "[a-f]*", "[!x]*", "foo", "*o", "*/", "'*'"])


def _quoted(text: str) -> str:
    return f"'{text}'"


_OPERATORS = st.sampled_from(["-", ":-", "=", ":=", "+", ":+"])
_TRIMS = st.sampled_from(["#", "##", "%", "%%"])
_numbers = st.recursive(
    st.one_of(
        st.integers(0, 9).map(str),
        st.sampled_from(["017", "0x1f", "100", "n"]),
    ),
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(
                "+ - * < > <= >= == != && || & | ^ << >>".split()  # noqa: SIM905
            ),
            inner,
        ).map(" ".join),
        st.tuples(st.sampled_from(["-", "!", "~", ""]), inner).map(lambda x: f"{x[0]}({x[1]})"),
        st.tuples(inner, inner, inner).map(lambda x: f"({x[0]}?{x[1]}:{x[2]})"),
    ),
    max_leaves=4,
)
_parameters = st.one_of(
    st.tuples(_NAMES).map(lambda x: f"${x[0]}"),
    st.sampled_from(["$1", "$2", "$#", "$*", "$@", "$?", "${#a}", "$0"]),
    st.tuples(_NAMES, _OPERATORS, st.sampled_from(["x", "'p q'", "$a", "", "y z", '"$b"'])).map(
        lambda x: f"${{{x[0]}{x[1]}{x[2]}}}"
    ),
    st.tuples(_NAMES, _TRIMS, _PATTERNS).map(lambda x: f"${{{x[0]}{x[1]}{x[2]}}}"),
    st.tuples(_NAMES, st.sampled_from(["1", "0:2", "1:1", " -1"])).map(
        lambda x: f"${{{x[0]}:{x[1]}}}"
    ),
    st.tuples(
        _NAMES, st.sampled_from(["/", "//"]), st.sampled_from(["o/0", "?/y", "a", "./_"])
    ).map(lambda x: f"${{{x[0]}{x[1]}{x[2]}}}"),
    _numbers.map(lambda x: f"$(({x}))"),
    # Versions differ in branches that are not taken.
    st.sampled_from(["$((n=4))", "$((n+=2))", "$((7/2))", "$((-7%3))", "$((5%n))", "$((1,2))"]),
    _TEXTS.map(lambda x: f"$(echo {_quoted(x)})"),
)
_words = st.one_of(
    _TEXTS.map(_quoted),
    st.sampled_from(["x", "foo", "a=b", "h*", "~", "\\$", "[!f]"]),
    _parameters,
    _parameters.map(lambda x: f'"{x}"'),
    st.tuples(_parameters, _parameters).map(lambda x: f'"{x[0]}-{x[1]}"'),
    st.tuples(_TEXTS.map(_quoted), _parameters).map("".join),
)
_lists = st.lists(_words, max_size=3).map(" ".join)
_tests = st.one_of(
    st.tuples(_words, st.sampled_from(["=", "!="]), _words).map(
        lambda x: f'[ "{x[0]}" {x[1]} "{x[2]}" ]' if '"' not in x[0] + x[2] else "[ a = a ]"
    ),
    st.tuples(_numbers, st.sampled_from(["-eq", "-ne", "-lt", "-ge"]), _numbers).map(
        lambda x: f"[ $(({x[0]})) {x[1]} $(({x[2]})) ]"
    ),
    st.tuples(st.sampled_from(["-n", "-z", "-e", "-f", "-d", "-s"]), _words).map(
        lambda x: f"test {x[0]} {x[1]}"
    ),
    st.sampled_from(["true", "false", "! true", "[ -e f ]", "[ ]", "[ x ]", "[ ! x ]"]),
)
_sources = st.one_of(
    _lists.map(lambda x: f"echo {x}"),
    st.tuples(_words, _words).map(lambda x: f"printf '%s\\n' {x[0]} {x[1]}"),
    st.sampled_from(["printf 'b 2\\na 1\\nc 3\\na 1\\n'", "seq 5", "echo", "printf 'no end'"]),
)
_filters = st.sampled_from(
    ["cat", "sort", "tr a-z A-Z", "sed s/a/b/g", "wc -l", "cut -d' ' -f1", "uniq", "tail -n1",
     "rev", "grep a", "grep -v a", "sort -r", "while read x; do echo \"<$x>\"; done",
     "{ read x y; echo $y; }", "(cat)", "sed -n 2p", "head -c4", "xargs", "tac"]
)  # fmt: skip
_simple = st.one_of(
    _lists.map(lambda x: f"echo {x}"),
    st.tuples(_NAMES, _words).map("=".join),
    st.tuples(st.sampled_from(["", "%s", "%d", "<%s>", "%5s|", "%-3s|", "%x"]), _lists).map(
        lambda x: f"printf '{x[0]}\\n' {x[1]}"
    ),
    st.tuples(_sources, st.lists(_filters, min_size=1, max_size=2)).map(
        lambda x: " | ".join([x[0], *x[1]])
    ),
    st.tuples(_lists, st.sampled_from([">", ">>"]), _FILES).map(
        lambda x: f"echo {x[0]} {x[1]} {x[2]}"
    ),
    _FILES.map(lambda x: f"cat {x}"),
    _FILES.map(lambda x: f"cat < {x}"),
    st.tuples(_NAMES, _FILES).map(lambda x: f"read {x[0]} < {x[1]}"),
    st.sampled_from(
        ["set -- x 'y z'", "shift", "set --", "true", "false", "f", "f 1 2", "unset a", "export b",
         "set -e", "set +e", "set -u", "set +u", "set -f", "set +f", "IFS=:", "IFS=' '",
         "unset IFS", "nope", "cd none", "echo $LINENO", ": ${a:?}", ": ${d?gone}",
         "n=3", "n=$((n+1))", "trap 'echo bye' EXIT", "trap 'echo T' TERM", "exit 4", "break",
         "continue",
         "eval 'echo $a'", "local a=1", "readonly c", "rm -f f", "mkdir -p d; ls d", "ls",
         "[ -f f ] && echo f",
         "(exit 3)", "false & wait $!", "echo e >&2", "echo x 2>&1 >f", "nope 2>/dev/null",
         "return 5", "exec 3>g; echo three >&3; exec 3>&-", "command -v f", "command echo c",
         "type cd", "let n=n+1", "getopts ab: o -a -b v", "test 1 -eq x", "set -o pipefail",
         "echo $-"]
    ),
    _tests,
)  # fmt: skip


def _here(parts: tuple[str, str, bool]) -> str:
    first, second, quoted = parts
    mark = "'E'" if quoted else "E"
    return f"cat <<{mark}\n{first} {second}\n  $a\n\\$x\nE\n"


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.tuples(_tests, body, body).map(lambda x: f"if {x[0]}; then\n{x[1]}\nelse\n{x[2]}\nfi"),
        st.tuples(_lists, body).map(lambda x: f"for v in {x[0]}; do\n{x[1]}\necho $v\ndone"),
        st.tuples(_words, _PATTERNS, body, body).map(
            lambda x: f"case {x[0]} in\n{x[1]}) {x[2]} ;;\nx|foo) {x[3]} ;;\n*) echo other;;\nesac"
        ),
        body.map(lambda x: f"i=0; while [ $i -lt 2 ]; do i=$((i+1))\n{x}\ndone"),
        body.map(lambda x: f"j=0; until [ $j -ge 2 ]; do j=$((j+1))\n{x}\ndone"),
        body.map(lambda x: f"(\n{x}\n)"),
        body.map(lambda x: f"{{\n{x}\n}}"),
        body.map(lambda x: f"{{\n{x}\n}} > out 2>&1"),
        body.map(lambda x: f"g() {{\n{x}\n}}\ng x y"),
        body.map(lambda x: f'echo "$(\n{x}\n)"'),
        body.map(lambda x: f"b=$(\n{x}\n)"),
        body.map(lambda x: f"{{\n{x}\n}} 2>&1 | cat"),
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(
            lambda x: f"{{\n{x[0]}\n}} {x[1]} {{\n{x[2]}\n}}"
        ),
        st.tuples(_words, _words, st.booleans()).map(_here),
        body.map(lambda x: f"! {{\n{x}\n}}"),
    )


_commands = st.recursive(_simple, _compound, max_leaves=4)
_HEAD = "f() { echo f:$# \"$1\"; }; a=foo.tar.gz b='x y'\n"
generate_scripts = st.lists(_commands, min_size=1, max_size=4).map(
    lambda x: _HEAD + "\n".join(x) + "\necho end $?; [ ! -e out ] || cat out"
)
