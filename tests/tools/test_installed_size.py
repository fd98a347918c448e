from __future__ import annotations

from pathlib import Path

from tools.installed_size import added_sizes, check_size, check_tags, read_installed


def install(folder: Path, name: str, size: int, *requirements: str) -> None:
    """Install a package of one file, as pip lays it out."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    lines = (f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {r}" for r in requirements))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    (metadata / "RECORD").write_text(f"{name}.py,,\n{name}.pyc,,\n")
    (folder / f"{name}.py").write_bytes(b"#" * size)


def test_only_packages_that_the_client_does_not_need_are_counted(tmp_path: Path) -> None:
    install(tmp_path, "pytest-kwait", 10, "Kubernetes>=36", "pytest", 'cel; extra == "cel"')
    install(tmp_path, "kubernetes", 1000, "PyYAML")
    install(tmp_path, "pytest", 5, "pyyaml", 'colorama; sys_platform == "win32"')
    install(tmp_path, "PyYAML", 500)
    install(tmp_path, "pip", 300)

    assert added_sizes(read_installed(tmp_path)) == {"pytest": 5, "pytest-kwait": 10}


def test_a_large_installation_is_refused_with_its_largest_parts() -> None:
    sizes = {"pytest-kwait": 20_000_000, "cryptography": 40_000_001, "pytest": 3_000_000}

    assert check_size({"pytest-kwait": 60_000_000}) is None
    assert check_size(sizes) == (
        "pytest-kwait adds 63.0 MB to an installation of kubernetes; at most 60.0 MB are allowed. "
        "The largest parts:\n"
        "   40.0 MB cryptography\n"
        "   20.0 MB pytest-kwait\n"
        "    3.0 MB pytest"
    )


def test_a_wheel_for_one_platform_is_refused() -> None:
    assert check_tags(Path("pytest_kwait-1.0-py3-none-any.whl")) is None
    assert check_tags(Path("pytest_kwait-1.0-cp311-cp311-linux_x86_64.whl")) == (
        "pytest_kwait-1.0-cp311-cp311-linux_x86_64.whl is for cp311-cp311-linux_x86_64; "
        "it must be for py3-none-any"
    )
