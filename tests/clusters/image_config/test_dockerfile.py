"""Dockerfiles: instructions, stages, arguments, variables, and files that are none."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.clusters.image_config.config import ImageConfig, ImageConfigError
from pytest_kwait.clusters.image_config.dockerfile import DEFAULT_PATH, read_dockerfile


def read(text: str, target: str = "", **build_args: str) -> ImageConfig:
    return read_dockerfile(text, target, build_args)


@pytest.mark.parametrize(
    ("text", "entrypoint", "cmd"),
    [
        ("", (), ()),
        ('ENTRYPOINT ["web", "-v"]', ("web", "-v"), ()),
        ('CMD ["web", "-v"]', (), ("web", "-v")),
        ('entrypoint ["web"]\ncmd ["-v"]', ("web",), ("-v",)),
        ("ENTRYPOINT exec web  $PORT", ("/bin/sh", "-c", "exec web  $PORT"), ()),
        ("CMD web", (), ("/bin/sh", "-c", "web")),
        ('SHELL ["/bin/bash", "-ec"]\nCMD web', (), ("/bin/bash", "-ec", "web")),
        ("ENTRYPOINT []", (), ()),
        ('ENTRYPOINT [""]', (), ()),
        ("CMD ['web']", (), ("/bin/sh", "-c", "['web']")),
        ('CMD ["a"]\nENTRYPOINT ["b"]', ("b",), ("a",)),
        ('CMD ["a"]\nCMD ["b"]', (), ("b",)),
        ('ENTRYPOINT ["web", \\\n  # a comment\n\n  "-v"]', ("web", "-v"), ()),
        ('CMD ["web", "$HOME"]', (), ("web", "$HOME")),
    ],
)
def test_the_program_is_that_of_entrypoint_and_cmd(
    text: str, entrypoint: tuple[str, ...], cmd: tuple[str, ...]
) -> None:
    found = read(f"FROM scratch\n{text}\n")
    assert (found.entrypoint, found.cmd) == (entrypoint, cmd)


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("ENV A=1 B='two words' C=\"three $A\"", {"A": "1", "B": "two words", "C": "three "}),
        ("ENV A=1\nENV B=${A}2 C=\\$A D=a\\ b", {"A": "1", "B": "12", "C": "$A", "D": "a b"}),
        ("ENV A the rest = of it", {"A": "the rest = of it"}),
        ("ENV A=old\nENV A=new B=$A", {"A": "new", "B": "old"}),
        ("ENV A=${X:-x} B=${X-y} C=${X:+z}", {"A": "x", "B": "y", "C": ""}),
        ("ENV X=\nENV A=${X:-x} B=${X-y} C=${X+z}", {"X": "", "A": "x", "B": "", "C": "z"}),
        ("ENV X=a/b/c\nENV A=${X#*/} B=${X##*/} C=${X%/*} D=${X%%/*}",
         {"X": "a/b/c", "A": "b/c", "B": "c", "C": "a/b", "D": "a"}),
        ("ENV PATH=/app/bin:$PATH", {"PATH": f"/app/bin:{DEFAULT_PATH}"}),
        ("ENV A='$X' B=\"\\\"\" C=$ D=\"a\\b\"", {"A": "$X", "B": '"', "C": "$", "D": "a\\b"}),
        ("ENV A=1 \\\n    # not this\n    B=2", {"A": "1", "B": "2"}),
        ("ENV A=${X:-${Y:-z}}", {"A": "z"}),
        ("ARG V=1\nENV V=2\nENV A=$V", {"V": "2", "A": "2"}),
        ("ARG V=1\nENV A=$V", {"A": "1"}),
        ("ARG V\nENV A=x$V", {"A": "x"}),
    ],
)  # fmt: skip
def test_variables_have_both_forms_and_refer_to_earlier_ones(
    text: str, env: dict[str, str]
) -> None:
    assert read(f"FROM scratch\n{text}\n").env == env


@pytest.mark.parametrize(
    ("text", "workdir", "user"),
    [
        ("", "/", ""),
        ("WORKDIR /app\nWORKDIR src/../web\nUSER web:web", "/app/web", "web:web"),
        ("ARG UID=1000\nENV APP=/app\nWORKDIR $APP\nUSER ${UID}:0", "/app", "1000:0"),
        ('WORKDIR "/with a space"', "/with a space", ""),
    ],
)
def test_workdir_and_user_are_expanded(text: str, workdir: str, user: str) -> None:
    found = read(f"FROM scratch\n{text}\n")
    assert (found.workdir, found.user) == (workdir, user)


def test_the_signal_that_ends_it_is_expanded() -> None:
    assert read("FROM a\nARG S=QUIT\nSTOPSIGNAL SIG$S\n").stop_signal == "SIGQUIT"


_STAGES = """\
# syntax=docker/dockerfile:1
ARG PYTHON=3.13
FROM --platform=$BUILDPLATFORM python:${PYTHON} AS Base
ENV A=base
WORKDIR /base
CMD ["base"]
FROM base AS web
ENV B=web
ENTRYPOINT ["web"]
FROM base
ARG PYTHON
ARG TARGETARCH
ENV P=$PYTHON
USER 1000
"""


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("", ImageConfig((), ("base",), {"A": "base", "P": "3.13"}, "/base", "1000")),
        ("base", ImageConfig((), ("base",), {"A": "base"}, "/base")),
        ("WEB", ImageConfig(("web",), (), {"A": "base", "B": "web"}, "/base")),
        ("1", ImageConfig(("web",), (), {"A": "base", "B": "web"}, "/base")),
    ],
)
def test_a_stage_has_what_its_base_has(target: str, found: ImageConfig) -> None:
    assert read(_STAGES, target) == found


def test_build_arguments_replace_defaults() -> None:
    assert read(_STAGES, PYTHON="3.14").env["P"] == "3.14"
    assert read("FROM a\nARG V=1\nENV A=$V", V="2", HTTP_PROXY="x").env == {"A": "2"}


@pytest.mark.parametrize(
    "text",
    [
        'FROM a\nRUN <<EOF\nCMD ["no"]\nEOF\nCMD ["yes"]',
        "FROM a\nRUN <<-'END' cat && <<B\n\tCMD no\n\tEND\nCMD no\nB\nCMD [\"yes\"]",
        'FROM a\nCOPY <<"one two" /x\nFROM no\none two\nCMD ["yes"]',
        'FROM a\nRUN echo "<<EOF" $((1<<2))\nCMD ["yes"]',
        'FROM a\r\nRUN x \\\r\n  && y\r\nCMD ["yes"]\r\n',
        '\ufeff# escape=`\nFROM a\nRUN dir c:\\\nCMD [ `\n"yes" `\n]',
        'FROM a\nRUN echo \\\\\nCMD ["yes"]',
        'FROM a\n\\\n\nCMD ["yes"]\n\\',
        'FROM a\n  # comment\n\tcmd ["yes"]\nONBUILD CMD ["no"]\nHEALTHCHECK CMD no',
    ],
)
def test_other_instructions_are_passed_over(text: str) -> None:
    assert read(text).cmd == ("yes",)


_UNKNOWN_ARG = "it has no ARG VERSION for build_args; there are: PYTHON, TARGETARCH"


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("", {}, "it has no FROM: use a Dockerfile, an OCI layout or an archive"),
        ("ARG A\n", {}, "it has no FROM: use a Dockerfile, an OCI layout or an archive"),
        ("CMD x\nFROM a", {}, "line 1: CMD stands before the first FROM"),
        ("shop:\n  image: x\n", {}, "line 1: it is no Dockerfile: unknown instruction 'SHOP:'"),
        ("FROM a\nENTRYPONT x", {}, "line 2: it is no Dockerfile: unknown instruction "
            "'ENTRYPONT', did you mean ENTRYPOINT?"),
        ("FROM a b", {}, "line 1: FROM needs one or three arguments, as FROM python:3.13 AS web"),
        ("FROM $BASE", {}, "line 1: the image of FROM is empty: $BASE"),
        ("FROM a\nENV", {}, "line 2: ENV needs an argument"),
        ("FROM a\nENV A", {}, "line 2: ENV needs NAME=VALUE, or a name and a value"),
        ("FROM a\nENV A=1 B", {}, "line 2: ENV needs NAME=VALUE, and 'B' is none"),
        ("FROM a\nENV =1", {}, "line 2: the name of a variable of ENV is empty"),
        ("FROM a\nENV A=${B", {}, "line 2: ${B: the modifier '' of ${B} is not supported: use "
            ":-, :+, :?, #, ##, % or %%"),
        ("FROM a\nENV A=${B:-c", {}, "line 2: ${B:-c: syntax error: missing '}'"),
        ("FROM a\nENV A=${}", {}, "line 2: ${}: syntax error: bad substitution"),
        ("FROM a\nENV A=${B/c/d}", {}, "line 2: ${B/c/d}: the modifier '/' of ${B} is not "
            "supported: use :-, :+, :?, #, ##, % or %%"),
        ("FROM a\nENV A='b", {}, "line 2: 'b: a single quote is not closed"),
        ('FROM a\nENV A="b', {}, 'line 2: "b: a double quote is not closed'),
        ("FROM a\nUSER ${U:?is needed}", {}, "line 2: U: is needed"),
        ("FROM a\nUSER ${U?}", {}, "line 2: U: not allowed to be unset"),
        (f"FROM a\nENV A={'${B:-' * 60}{'}' * 60}", {}, "line 2: over 50 variables are within "
            "each other"),
        ("FROM a\nARG 1=2", {}, "line 2: ARG needs NAME or NAME=VALUE, and '1' is no name"),
        ("FROM a\nCMD [1]", {}, "line 2: use a list of texts only, and not [1]"),
        ("FROM a\nSHELL bash", {}, 'line 2: SHELL needs a list, as ["/bin/bash", "-c"]'),
        ("FROM a\nRUN <<EOF\nx\n", {}, "line 2: the heredoc EOF has no end"),
        ("# escape=x\nFROM a", {}, "line 1: escape=x is invalid: use a backslash or `"),
        (_STAGES, {"target": "wbe"}, "it has no stage 'wbe': the stages are base, web, 2"),
        (_STAGES, {"VERSION": "1"}, _UNKNOWN_ARG),
    ],
)  # fmt: skip
def test_an_invalid_file_has_the_line_and_what_is_valid(
    text: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ImageConfigError) as error:
        read(text, **given)
    assert str(error.value) == message
