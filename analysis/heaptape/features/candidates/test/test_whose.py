# SPDX-License-Identifier: MIT
"""Files that say which libraries are loaded: whose they are, and what is wrong with them, in one line."""

import os
from pathlib import Path

import pytest
from heaptape.allocators import installed, registry
from heaptape.common import home
from heaptape.common.errors import HeaptapeError
from heaptape.features.candidates import in_use

from tests.support import HEAPTAPE_HERE, OUT, call_heaptape, refused

OTHER = 65534


def candidate(folder: Path) -> Path:
    """An installed candidate's folder."""
    there = folder / "mine@1"
    there.mkdir()
    (there / "lib.so").touch()
    source = installed.Source("folder", "", "", "")
    record = installed.Record(1, "mine", "1", "lib.so", "", "", source, "", (), "", "", (), None, "", None, 0)
    installed.write(there, record)
    return there


@pytest.mark.parametrize("name", [".", installed.RECORD, "lib.so"])
@pytest.mark.parametrize("how", ["owner", "mode", "link"])
def test_what_another_user_can_change_is_not_loaded(name: str, how: str, tmp_path: Path) -> None:
    path = candidate(tmp_path) / name
    assert [one.record.label for one in installed.find_all(tmp_path)] == ["mine@1"]
    if how == "link" and name != ".":
        path = path.rename(tmp_path / "elsewhere")
        (tmp_path / "mine@1" / name).symlink_to(path)
    if how == "mode":
        path.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(path, OTHER, OTHER)
    else:
        pytest.skip("only root gives files to another user")
    with pytest.raises(HeaptapeError, match=f"{tmp_path}/mine@1.*another user can change it"):
        installed.find_all(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = !\n", "line 1, column 5"),
        ("[glibc]\nlibrary = 1", "glibc: library: Expected `str`"),
        ("[glibc]", "glibc: Object missing required field `library`"),
        ('[glibc]\nlibrary = ""\nrun = "sh"', "glibc: Object contains unknown field `run`"),
        ('glibc = "libc.so"', "glibc: Expected `object`"),
        ('[a]\nlibrary = ""\n[a.variants.b]\nenvironment = {A = 1}', "environment[...]: Expected `str`"),
        ('[glibc]\nlibrary = "\udce9"', "can't decode"),
    ],
)
def test_a_malformed_list_of_allocators_gives_one_line_with_file_and_place(text, says, tmp_path, monkeypatch):
    file = tmp_path / "allocators" / "allocators.toml"
    file.parent.mkdir()
    file.write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setattr(home, "SHARED", tmp_path)
    assert str(file) in refused(HEAPTAPE_HERE, "allocators", "--variants", "glibc", says=says).stderr
    with pytest.raises(HeaptapeError):
        registry.load(home.Home(OUT))


@pytest.mark.parametrize(
    ("allocator", "version", "place", "how", "said"),
    [
        ("jemalloc", "5.3", "/lib/j.so", "library", ["prog: jemalloc (5.3), /lib/j.so", "  A=1"]),
        ("", "", "/bin/prog", "linked",
         ["prog: an allocator that is not in the registry, linked into the executable", "  A=1"]),
        ("glibc", "", "/bin/prog", "static",
         ["prog: glibc, a static executable", "  A=1",
          "  Static: LD_PRELOAD has no effect; heaptape record runs it under Valgrind."]),
        ("", "", None, "library", ["prog: none of its libraries defines malloc"]),
    ],
)  # fmt: skip
def test_whose_malloc_a_program_calls_is_said_with_its_settings(allocator, version, place, how, said, monkeypatch):
    found = in_use.InUse("prog", Path(place) if place else None, allocator, version, how, {"A": "1"})
    monkeypatch.setattr(in_use, "of_command", lambda *_: found)
    done = call_heaptape("allocators", "--", "prog")
    assert (done.status, done.stdout.splitlines()) == (0, said)
