"""Fakes of kind, k3d, minikube and docker: they replay recorded output and note their arguments.

`install` puts one on the PATH. Its dialogue maps the start of a command line to standard output,
standard error and exit status; clusters that it creates are listed and have a kubeconfig.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

KUBECONFIG = """\
current-context: lab
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: lab, user: {token: secret}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
"""


def install(folder: Path, name: str, dialogue: dict[str, tuple[str, str, int]]) -> None:
    """Put a program into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(dialogue))
    program = folder / name
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -I -S {Path(__file__)} {folder}/{name} "$@"\n'
    )
    program.chmod(0o755)


def log(folder: Path, name: str) -> list[str]:
    """Return the command lines that a program was run with."""
    file = folder / f"{name}.log"
    return file.read_text().splitlines() if file.exists() else []


def main(program: str, *arguments: str) -> int:
    line = " ".join(arguments)
    with Path(f"{program}.log").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    dialogue = json.loads(Path(f"{program}.json").read_text(encoding="utf-8"))
    for start, (output, error, status) in dialogue.items():
        if line.startswith(start):
            if "WRITE" in output:
                Path(os.environ["KUBECONFIG"]).write_text(KUBECONFIG, encoding="utf-8")
                output = output.replace("WRITE", "")
            sys.stdout.write(output.replace("KUBECONFIG", KUBECONFIG))
            sys.stderr.write(error)
            return int(status)
    sys.stderr.write(f"unexpected: {line}\n")
    return 99


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
