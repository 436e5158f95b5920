# SPDX-License-Identifier: MIT
"""Candidates are built atomically, only from archives that match a registry's index, and are replayed by name. Long:
one more signal.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import planted_crates as planted
import pytest
from heaptape.allocators import installed, registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, default_home
from heaptape.features.candidates import build as building
from heaptape.features.candidates import install, sources

from tests.support import HEAPTAPE, HEAPTAPE_HERE, OUT, REPOSITORY, call_heaptape, published, succeed, take_interrupts

HOME = Home(OUT)
NO_MALLOC = "echo 'void free(void *p) { (void)p; }' >x.c; $CC -shared -fPIC -o libplanted.so x.c"
LACKING = REPOSITORY / "replay/test/programs/lacking_allocator.c"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A separate cache, recipe file and local registry: the folder with cache, recipes.toml and registry."""
    releases = {release: planted.crate(release) for release in ("0.1.0+1", "0.1.1", "0.2.0")}
    planted.registry(tmp_path / "registry", releases)
    cargo = tmp_path / "cargo"
    cargo.mkdir()
    (cargo / "config.toml").write_text(
        '[source.crates-io]\nreplace-with = "near"\n'
        f'[source.near]\nlocal-registry = "{tmp_path / "registry"}"\n'
    )  # fmt: skip
    recipes = tmp_path / "recipes.toml"
    recipes.write_text(planted.RECIPE.format(build=planted.BUILD))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CARGO_HOME", str(cargo))
    monkeypatch.setattr(Home, "candidates_file", lambda self: recipes)
    return tmp_path


def left(place):
    """The content of the candidates' folder."""
    return sorted(path.name for path in installed.root().glob("*"))


def bring(*words):
    return call_heaptape("allocators", "install", *words, "--no-verify")


def fails(done, *says):
    assert done.status == 1, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for text in says:
        assert text in done.stderr
    return done


def test_an_installed_candidate_is_chosen_by_version_and_series(place):
    assert bring("planted@1.0.0", "planted@1").status == 0
    assert bring("planted@2.0.0").status == 0
    known = registry.load(HOME)
    labels = [registry.choose(name, known).label for name in ("planted@1.0.0", "planted@1", "planted", "planted@2:A=b")]
    assert labels == ["planted@1.0.0", "planted@1.2.0", "planted@2.0.0", "planted@2.0.0:A=b"]
    choice = registry.choose("planted@1", known)
    assert choice.preload == str(installed.root() / "planted@1.2.0" / "libplanted.so")
    here = known | {"planted": registry.Allocator(library="libother.so", name="planted")}
    assert registry.named("planted@1", here).library == "libplanted.so"  # what a recording's allocator is known by
    with pytest.raises(HeaptapeError, match=r"planted@3 is not installed \(of planted there are planted@1.0.0, "):
        registry.choose("planted@3", known)
    assert [c.label for c in registry.choose_all(["planted@2:N=1..2"], known)] == [
        "planted@2.0.0:N=1",
        "planted@2.0.0:N=2",
    ]


def test_candidates_have_the_tunables_and_variants_of_their_base(place):
    recipe = planted.RECIPE.replace("[planted", "[jemalloc")
    (place / "recipes.toml").write_text(recipe.format(build=planted.BUILD))
    assert bring("jemalloc@1.2.0").status == 0
    known = registry.load(HOME)
    assert registry.choose("jemalloc@1:no-tcache", known).environment == {"MALLOC_CONF": "tcache:false"}
    assert registry.choose("jemalloc@1:narenas=3", known).environment == {"MALLOC_CONF": "narenas:3"}
    with pytest.raises(HeaptapeError, match="unknown variant 'x' of jemalloc@1.2.0"):
        registry.choose("jemalloc@1:x", known)


def test_a_variant_is_of_the_versions_that_know_its_setting(place, monkeypatch):
    newer = planted.ALLOCATOR + 'const char *const option = "a_new_option";\n'
    planted.registry(place / "registry", {"0.1.0+1": planted.crate("0.1.0+1"), "0.2.0": planted.crate("0.2.0", newer)})
    (place / "recipes.toml").write_text(planted.RECIPE.format(build=planted.BUILD))
    variants = '[planted.variants.new]\nsummary = "s"\nenvironment = { N = "1" }\nneeds = "a_new_option"\n'
    (place / "registry.toml").write_text(f'[planted]\nlibrary = "libplanted.so"\n{variants}')
    monkeypatch.setattr(Home, "registry_file", lambda self: place / "registry.toml")
    assert bring("planted@1.0.0", "planted@2.0.0").status == 0
    output = call_heaptape("allocators", "--variants", "planted@2").stdout
    assert output.split() == ["planted@2.0.0:new", "s", "N=1"]
    output = call_heaptape("allocators", "--variants", "planted@1").stdout
    assert output == "planted@1.0.0:new  not of this version: s\n"
    known = registry.load(HOME)
    assert registry.choose("planted@2:new", known).environment == {"N": "1"}
    with pytest.raises(HeaptapeError, match=r"variant 'new' of planted@1.0.0: not in this version \(1.0.0\)"):
        registry.choose("planted@1:new", known)


def test_the_record_has_sources_and_build(place, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-g0")
    assert bring("planted@2.0.0").status == 0
    listed = published("allocators-list", call_heaptape("allocators", "list", "--json").stdout)
    (one,) = listed["installed"]
    folder = installed.root() / "planted@2.0.0"
    assert one["path"] == str(folder / "libplanted.so")
    assert one["library_sha256"] == registry.sha256_of(folder / "libplanted.so")
    assert one["source"]["sha256"] == registry.sha256_of(place / "registry" / "planted-sys-0.2.0.crate")
    assert (one["source"]["release"], one["source"]["note"]) == ("0.2.0", "the newest")
    assert (one["flags"], one["build"], one["verified"]) == ("-O1 -g0", planted.BUILD, None)
    assert len(one["build_id"]) == 40
    assert one["compiler"]
    assert one["kernel"] == os.uname().release
    assert [candidate["name"] for candidate in listed["candidates"]] == ["planted"]
    output = call_heaptape("allocators").stdout
    assert "planted@2.0.0" in output
    assert "not verified" in output
    assert published("allocators", succeed(HEAPTAPE_HERE, "allocators", "--json").stdout)["installed"] == [one]


@pytest.fixture
def server(place):
    """The registry behind HTTP, like crates.io's sparse index: the server, and the requested paths."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *words):
            asked.append(self.path)

    root = place / "registry"
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    base = f"http://127.0.0.1:{http.server_port}"
    (root / "index" / "config.json").write_text(json.dumps({"dl": f"{base}/{{crate}}-{{version}}.crate"}))
    config = f'[source.crates-io]\nreplace-with = "far"\n[source.far]\nregistry = "sparse+{base}/index"\n'
    (place / "cargo" / "config.toml").write_text(config)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield http, asked
    http.shutdown()
    thread.join()
    http.server_close()


def test_a_sparse_registry_is_asked_once_and_then_no_more(server, place):
    http, asked = server
    assert bring("planted@1.0.0").status == 0
    assert asked == ["/index/pl/an/planted-sys", "/index/config.json", "/planted-sys-0.1.0%2B1.crate"]
    shutil.rmtree(installed.root())
    assert bring("planted@1.0.0").status == 0
    assert len(asked) == 3


def test_what_a_registry_does_not_have_is_one_line(server, place):
    fails(bring("planted@2.1.0"), "crate planted-sys has no release 0.9.9: there are 0.1.0+1, 0.1.1, 0.2.0")
    (place / "registry" / "planted-sys-0.2.0.crate").unlink()
    fails(bring("planted@2.0.0"), "crate planted-sys: http://127.0.0.1", "404")
    assert left(place) == []


def test_an_archive_that_the_index_does_not_vouch_for_is_not_unpacked(place):
    (place / "registry" / "planted-sys-0.2.0.crate").write_bytes(planted.crate("0.2.0", "int other;"))
    fails(bring("planted@2.0.0"), "crate planted-sys 0.2.0: its sha256 is ", ", the index says ")
    assert left(place) == []
    assert list((place / "cache" / "heaptape" / "sources" / "crates.io").iterdir()) == []


def test_a_kept_archive_that_was_damaged_is_fetched_again(place):
    assert bring("planted@2.0.0").status == 0
    kept = place / "cache" / "heaptape" / "sources" / "crates.io" / "planted-sys-0.2.0.crate"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-5])
    assert bring("planted@2.0.0", "--rebuild").status == 0
    assert kept.read_bytes() == whole


def test_a_build_that_fails_shows_its_error_and_keeps_its_log(place):
    data = planted.crate("0.2.0", "#error not today\n")
    planted.registry(place / "registry", {"0.2.0": data})
    log = installed.root() / "planted@2.0.0.log"
    fails(bring("planted@2.0.0"), "its build ended with 1: ", "error: #error not today", f"({log})")
    assert "#error not today" in log.read_text()
    assert left(place) == [log.name]
    assert call_heaptape("allocators", "list").status == 0


def test_one_that_is_there_is_built_again_only_if_asked_and_stays_if_that_fails(place):
    assert "planted@2.0.0: installed" in bring("planted@2.0.0").stdout
    assert "planted@2.0.0: is installed already" in bring("planted@2.0.0").stdout
    before = (installed.root() / "planted@2.0.0" / "record.json").read_text()
    (place / "recipes.toml").write_text(planted.RECIPE.format(build="false"))
    fails(bring("planted@2.0.0", "--rebuild"), "its build ended with 1")
    assert (installed.root() / "planted@2.0.0" / "record.json").read_text() == before
    assert call_heaptape("allocators", "remove", "planted@2.0.0").status == 0
    fails(
        call_heaptape("allocators", "remove", "planted@2.0.0"), "planted@2.0.0 is not installed in ", "there are none"
    )


def test_the_others_are_installed_if_one_fails(place):
    done = bring("planted@2.1.0", "planted@1.0.0")
    fails(done, "has no release 0.9.9")
    assert left(place) == ["planted@1.0.0"]


def test_a_full_disk_leaves_nothing_behind(place, monkeypatch):
    copy = shutil.copyfile

    def full(source, target):
        if target.name == "libplanted.so":
            raise OSError(28, "No space left on device", str(target))
        copy(source, target)

    monkeypatch.setattr(install.shutil, "copyfile", full)
    fails(bring("planted@2.0.0"), "libplanted.so: No space left on device")
    assert left(place) == []


def test_a_damaged_record_is_named_and_does_not_hide_the_registry(place):
    assert bring("planted@2.0.0").status == 0
    record = installed.root() / "planted@2.0.0" / "record.json"
    record.write_text(record.read_text().replace('"schema": 1', '"schema": "x"'))
    fails(call_heaptape("allocators", "list"), f"{record}: schema: Expected `int`")
    assert registry.choose("glibc", registry.load(HOME)).label == "glibc"
    record.unlink()
    assert call_heaptape("allocators", "list").status == 0


# From the user's own sources


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "mine.git"
    folder.mkdir()
    (folder / "planted.c").write_text(planted.ALLOCATOR)
    return folder


def own(place, *words):
    return call_heaptape("allocators", "install", "--from", place, "--lib", "libplanted.so", "--no-verify", *words)


def test_a_checkout_is_copied_built_and_named_after_its_contents(place, checkout):
    assert own(checkout, "--build", planted.BUILD).status == 0
    assert [path.name for path in checkout.iterdir()] == ["planted.c"]
    (one,) = left(place)
    (checkout / "planted.c").write_text(planted.ALLOCATOR + "int more;\n")
    assert own(checkout, "--build", planted.BUILD).status == 0
    assert own(checkout, "--build", planted.BUILD, "--name", "mine@next").status == 0
    assert len(left(place)) == 3
    assert one.startswith("mine@")
    assert registry.choose("mine@next", registry.load(HOME)).label == "mine@next"


def test_an_archive_of_ones_own_is_built(place, checkout, tmp_path):
    packed = tmp_path / "mine-1.tar.gz"
    packed.write_bytes(planted.archive({"mine-1/planted.c": planted.ALLOCATOR}))
    assert own(packed, "--build", planted.BUILD, "--name", "mine@1").status == 0
    assert left(place) == ["mine@1"]


# What is refused

FROM = f"install --from {REPOSITORY / 'docs'} --lib x.so --name"
# Words of `heaptape allocators`; cargo's source and the recipe's build, in place of the planted ones; status; the line.
REFUSED = [
    ("install planted@2", 'registry = "sparse+http://127.0.0.1:1/"', "", 1, "pl/an/planted-sys: [Errno 111] Connec"),
    ("install planted@2", 'registry = "https://x.org/i.git"', "", 1, "neither sparse+https://... nor a local-registry"),
    ("install planted@2", 'registry = "sparse+file:///etc/"', "", 1, "neither sparse+https://... nor a local-registry"),
    ("install planted@2", 'local-registry = "/nowhere"', "", 1, "/nowhere/index/pl/an/planted-sys: no such crate"),
    ("install planted@2", "registry = ", "", 1, "config.toml: "),
    ("install planted@2.0.0", "", "true", 1, "the build made no libplanted.so"),
    ("install planted@2.0.0", "", "echo text >libplanted.so", 1, "libplanted.so is not a shared library"),
    ("install planted@2.0.0", "", NO_MALLOC, 1, "defines no malloc"),
    ("install planted@2.0.0", "", "ln -s /etc/passwd libplanted.so", 1, "is not a file in the folder of the sources"),
    ("install planted@7", "", "", 1, "planted has no known version 7: there are 1.0.0, 1.2.0, 2.0.0, 2.1.0"),
    ("install hoard", "", "", 2, "unknown recipe 'hoard': there are planted"),
    ("install --from /nowhere --lib x.so", "", "", 1, "/nowhere: no such folder or archive"),
    *((f"{FROM} {name} --build true", "", "", 1, "is not a name") for name in ("../x@1", "a@../b", "a@b@c", ".x@1")),
    *((words, "", "", 2, "") for words in ("install", "remove", "list x", "list --from x", "install x --build y")),
    *((words, "", "", 2, "") for words in ("install --from x",)),
]


@pytest.mark.parametrize(("words", "source", "build", "status", "says"), REFUSED)
def test_what_is_refused_is_one_line_and_leaves_nothing(place, words, source, build, status, says):
    if source:
        text = f'[source.crates-io]\nreplace-with = "x"\n[source.x]\n{source}\n'
        (place / "cargo" / "config.toml").write_text(text)
    if build:
        (place / "recipes.toml").write_text(planted.RECIPE.format(build=build))
    done = call_heaptape("allocators", *words.split(), *(["--no-verify"] if status == 1 else []))
    assert (done.status, done.stderr.count("\n")) == (status, 1), done.stderr
    assert says in done.stderr
    assert left(place) == []


# Ended from outside


def started(place, checkout):
    """An installation whose build waits for ever, and the build's process id."""
    build = "echo $$ >$TOLD.part; mv $TOLD.part $TOLD; sleep 1000"
    command = [HEAPTAPE, "allocators", "install", "--from", checkout, "--build", build, "--lib", "x.so"]
    told = place / "told_file"
    process = subprocess.Popen(
        [str(word) for word in command], env={**os.environ, "TOLD": str(told)}, preexec_fn=take_interrupts
    )
    while not told.exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process, int(told.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupt_ends_the_build_and_leaves_nothing(place, checkout, number):
    process, build = started(place, checkout)
    process.send_signal(number)
    assert process.wait(timeout=120) == 128 + number
    assert not Path(f"/proc/{build}").exists()
    assert left(place) == []


def test_what_a_killed_installation_left_goes_with_the_next(place, checkout):
    process, build = started(place, checkout)
    assert bring("planted@1.0.0").status == 0  # one under way is not disturbed
    assert [name.startswith(".building-") for name in left(place)] == [True, False]
    process.kill()
    process.wait(timeout=120)
    os.killpg(build, signal.SIGKILL)
    assert bring("planted@1.2.0").status == 0
    assert left(place) == ["planted@1.0.0", "planted@1.2.0"]


# Checked against the rules of malloc


def test_verifying_reports_what_a_candidate_breaks_and_the_list_repeats_it(place, monkeypatch):
    monkeypatch.setattr(building, "CORPUS", ("gs.tape",))
    done = call_heaptape("allocators", "install", "planted@1.0.0")
    assert done.status == 0, done.stderr
    assert "planted@1.0.0: installed, keeps the rules of malloc on 2 workloads" in done.stdout
    monkeypatch.setenv("CFLAGS", "-DBREAKS_ALIGNMENT")
    done = call_heaptape("allocators", "install", "planted@1.2.0")
    assert done.status == 0
    assert "planted@1.2.0 breaks a rule of malloc on alignment_storm: op " in done.stderr
    assert "not aligned to " in done.stderr
    lines = call_heaptape("allocators", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines if "rule" in line] == ["keeps", "breaks"]


def test_a_candidate_without_aligned_functions_is_reported_by_install_and_list(place, monkeypatch):
    monkeypatch.setattr(building, "CORPUS", ("gs.tape",))
    (place / "mine").mkdir()
    compiled = f"cc -fno-builtin -shared -fPIC -DFREE -DREALLOC -o libplanted.so {LACKING}"
    from_it = ("--from", place / "mine", "--lib", "libplanted.so", "--name", "mine@1", "--build", compiled)
    done = call_heaptape("allocators", "install", *from_it)
    lacks = "has no calloc; has no memalign or posix_memalign or aligned_alloc; "
    assert f"mine@1: installed, {lacks}breaks a rule on alignment_storm: libplanted.so lacks " in done.stdout
    listed = call_heaptape("allocators", "list").stdout
    assert lacks.strip() in " ".join(listed.split())


# The recipes that come with heaptape


def test_every_recipe_has_its_table_in_the_registry_and_a_way_to_every_version():

    home = default_home()
    known = registry.load(home)
    recipes = sources.load(home)
    assert {name for name, one in known.items() if one.candidate} < set(recipes) <= set(known)
    for name, recipe in recipes.items():
        for version in recipe.versions:
            one = sources.choose(f"{name}@{version}", recipes)
            assert one.version == version
            assert one.package
            assert one.release.release or recipe.registry == "debian"
    assert sources.choose("mimalloc@2", recipes).version.startswith("2.")


PYPI_RECIPE = """
[planted]
registry = "pypi"
package = "planted"
licence = "MIT"
folder = "planted/c"
tools = ["cc"]
build = "$CC -shared -fPIC -o libplanted.so planted.c"
library = "libplanted.so"
[planted.versions]
"1.0" = { release = "2.0" }
"1.1" = { release = "2.1" }
"""


def test_sources_in_a_wheel_of_pypi_come_by_pip(tmp_path, monkeypatch):
    """Once; of it only the recipe's folder is unpacked."""
    with zipfile.ZipFile(tmp_path / "planted-2.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("planted/c/planted.c", planted.ALLOCATOR)
        wheel.writestr("planted/c/LICENSE", "free")
        wheel.writestr("../outside", "")
        metadata = "Metadata-Version: 2.1\nName: planted\nVersion: 2.0\n"
        wheel.writestr("planted-2.0.dist-info/METADATA", metadata)
        wheel.writestr("planted-2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("planted-2.0.dist-info/RECORD", "")
    (tmp_path / "recipes.toml").write_text(PYPI_RECIPE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(Home, "candidates_file", lambda self: tmp_path / "recipes.toml")
    assert bring("planted@1.0").status == 0
    next(tmp_path.glob("*.whl")).unlink()
    done = bring("planted@1.0", "--rebuild")
    assert done.status == 0, done.stderr
    (one,) = installed.find_all(installed.root())
    assert one.record.source.release == "2.0"
    assert (one.folder / "LICENSE").read_text() == "free"
    done = bring("planted@1.1")
    assert done.status == 1
    assert "planted==2.1: No matching distribution found" in done.stderr
    assert not list(tmp_path.rglob("outside"))


LIKE_RPMALLOC = """
void *malloc(unsigned long bytes) { (void)bytes; return 0; }
void free(void *object) { (void)object; }
void rpmalloc(void) {}
"""


def test_allocators_of_the_wheel_are_found_by_their_names_with_their_licences(place, monkeypatch):
    """Another library under such a name is not."""
    source, wheel = place / "source", place / "site" / "heaptape_allocators"
    (source / "part").mkdir(parents=True)
    (source / "part" / "LICENSE.txt").write_text("free")
    build = ("--build", "$CC -shared -fPIC -o lib.so x.c", "--lib", "lib.so")
    (source / "x.c").write_text(LIKE_RPMALLOC + "void rpmalloc_initialize(void) {}\n")
    assert bring("--from", str(source), *build, "--name", "rpmalloc@9").status == 0
    (source / "x.c").write_text(LIKE_RPMALLOC)
    assert bring("--from", str(source), *build, "--name", "snmalloc@9").status == 0
    wheel.parent.mkdir()
    installed.root().rename(wheel)
    assert registry.load(HOME)["rpmalloc"].path is None
    monkeypatch.syspath_prepend(str(wheel.parent))
    known = registry.load(HOME)
    assert (known["rpmalloc"].path, known["rpmalloc"].version) == (wheel / "rpmalloc@9" / "lib.so", "9")
    assert known["snmalloc"].path is None
    assert registry.choose("rpmalloc@9", known).path == known["rpmalloc"].path
    assert (wheel / "rpmalloc@9" / "part-LICENSE.txt").read_text() == "free"


def test_names_may_follow_options():
    done = call_heaptape("allocators", "install", "--no-verify", "no-such-allocator")
    assert "unknown recipe 'no-such-allocator'" in done.stderr
    assert call_heaptape("allocators", "install", "--no-verify").status == 2
