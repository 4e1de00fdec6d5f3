"""Where benchmarks look for the cgroups that hold processes to a share of a CPU."""

from __future__ import annotations

from pathlib import Path

from benchmarks.shares import find_controller


def test_the_first_version_is_found_by_the_controller_of_the_mount() -> None:
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/cpu cgroup rw,cpu 0 0\n"
    )
    assert find_controller(mounts) == (Path("/c/cpu"), False)


def test_the_second_version_is_found_by_what_the_mount_says_of_itself(tmp_path: Path) -> None:
    mounts = f"cgroup2 {tmp_path} cgroup2 rw,nsdelegate 0 0\n"
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io\n")
    assert find_controller(mounts) == (tmp_path, True)
    (tmp_path / "cgroup.controllers").write_text("cpuset io\n")
    assert find_controller(mounts) is None


def test_without_cgroups_none_is_found() -> None:
    assert find_controller("proc /proc proc rw 0 0\n") is None
