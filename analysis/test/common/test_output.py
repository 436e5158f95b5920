# SPDX-License-Identifier: MIT
"""Where a command's output goes: through links of this user and of root, never through another user's."""

import json
import os

import pytest
from heaptape.common import output
from heaptape.common.errors import HeaptapeError

from tests.support import HEAPTAPE, HEAPTAPE_HERE, refused

OTHER = 61002


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's links")
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("target", ["precious", "/dev/null", "missing"])
def test_another_users_link_is_no_place_for_output(tmp_path, precious, target, through):
    link = tmp_path / "link"
    link.symlink_to(target)
    os.lchown(link, OTHER, OTHER)
    if through:
        (tmp_path / "ours").symlink_to("link")
    name = str(tmp_path / ("ours" if through else "link"))
    for write in (output.check_writable, lambda path: output.write_text(path, "new")):
        with pytest.raises(HeaptapeError, match=f"^{name}: can't be written: a link of another user$"):
            write(name)
    assert precious.read_text() == "precious"
    assert link.is_symlink()
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's files")
def test_another_users_pipe_is_no_place_for_output(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.chown(pipe, OTHER, OTHER)
    with pytest.raises(HeaptapeError, match="pipe: can't be written: a pipe of another user$"):
        output.write_text(str(pipe), "new")
    (tmp_path / "text").write_text("0 0 malloc(24) = 0x1000\n")
    refused(HEAPTAPE, "convert", tmp_path / "text", pipe, "--to", "csv", says="pipe: can't create: Permission denied")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's files")
def test_what_replaces_another_users_file_is_not_writable_by_it(tmp_path):
    path = tmp_path / "r.json"
    path.touch()
    path.chmod(0o666)
    os.chown(path, OTHER, OTHER)
    output.write_text(str(path), "new")
    assert path.stat().st_uid == os.geteuid()
    assert not path.stat().st_mode & 0o022


def test_our_own_links_are_followed_as_files_pipes_and_devices_are(tmp_path, precious):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to("../precious")
    (tmp_path / "link").symlink_to("folder/up")
    output.write_text(str(tmp_path / "link"), "new")
    assert precious.read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    read, write = os.pipe()
    output.write_text(f"/proc/self/fd/{write}", "to a pipe")
    assert os.read(read, 100) == b"to a pipe"
    output.write_text("/dev/null", "nowhere")
    (tmp_path / "self").symlink_to("self")
    with pytest.raises(HeaptapeError, match="self: can't be written: Too many levels of symbolic links"):
        output.write_text(str(tmp_path / "self"), "x")


def test_a_file_of_holes_is_not_read_into_memory(tmp_path):
    with (tmp_path / "r.json").open("wb") as file:
        file.truncate(1 << 42)
    refused(HEAPTAPE_HERE, "compare", tmp_path / "r.json", says="r.json: is larger than 4 GiB")


def test_a_number_that_is_not_finite_is_null_in_json(tmp_path):
    """JSON has no such number, and most readers refuse the whole text."""
    output.print_json({"a": [1.5, {"b": float("nan")}], "c": (float("inf"), -float("inf"))}, str(tmp_path / "one"))
    assert json.loads((tmp_path / "one").read_text()) == {"schema": 1, "a": [1.5, {"b": None}], "c": [None, None]}
