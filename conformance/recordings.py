"""Scripts that are played on a cluster, and the recordings of a real one beside them.

A suite is a folder with `NAME.yaml` in one folder and `recordings/NAME.json` in another.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def list_scripts(folder: Path) -> list[Path]:
    """Return the scripts of a folder by name."""
    return sorted(folder.glob("*.yaml"))


def recording_of(script: Path) -> Path:
    """Return the path of a script's recording."""
    return script.parent.with_name("recordings") / f"{script.stem}.json"


def read_recording(script: Path) -> Any:
    """Return the recording of a script."""
    return json.loads(recording_of(script).read_text())


def write_recording(script: Path, recording: Any, *, sort_keys: bool) -> None:
    """Write the recording of a script."""
    path = recording_of(script)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(recording, indent=1, sort_keys=sort_keys) + "\n")


def add_record_arguments(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Add the arguments that all recorders have: the cluster, and names of scripts in `folder`."""
    parser.add_argument("kubeconfig", type=_existing_file, help="kubeconfig of a real cluster")
    parser.add_argument("names", nargs="*", help=f"scripts of {folder.name}/ (default: all)")


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path


def select_scripts(parser: argparse.ArgumentParser, folder: Path, names: list[str]) -> list[Path]:
    """Return the scripts of these names, or all; unknown names are an error of usage."""
    scripts = {path.stem: path for path in list_scripts(folder)}
    unknown = [name for name in names if name not in scripts]
    if unknown:
        parser.error(f"unknown names: {', '.join(unknown)}; {folder} has {', '.join(scripts)}")
    return [scripts[name] for name in names or scripts]
