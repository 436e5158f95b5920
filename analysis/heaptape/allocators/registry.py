# SPDX-License-Identifier: MIT
"""The registry of allocators (allocators.toml), and the meaning of a name on the command line."""

import fnmatch
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from heaptape.allocators import c_libraries, installed
from heaptape.allocators.c_libraries import CLibrary
from heaptape.allocators.elf_files import exported_names
from heaptape.allocators.tunables import Tunables
from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError, UsageError, unknown
from heaptape.common.home import IN_WHEEL, Home
from heaptape.results.recorded_on import short_version


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What proves that a library is the allocator whose name it has: others have the same file names (gperftools'
    libtcmalloc.so and Google's). `exports`: symbols that only that allocator defines for others; `contains`: text in
    it; `lacks`: symbols that it does not export, but a library with the same name does.
    """

    exports: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def holds(self, library: Path) -> bool:
        """False also if the file can't be read or is no shared library."""
        try:
            data = library.read_bytes()
        except OSError:
            return False
        names = exported_names(data)
        return (
            "malloc" in names
            and names.issuperset(self.exports)
            and names.isdisjoint(self.lacks)
            and all(text.encode() in data for text in self.contains)
        )


DEFAULT_VARIANT = "default"
GLIBC = "glibc"
BUILT = f"{GLIBC}="  # before a folder
MOST_VALUES = 1000  # of one sweep; each is an allocator of the comparison


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Environment settings under a name. `advise`: for which programs `heaptape advise` tries it. `needs`: a name that
    a library contains if it knows the setting, where not all versions do.
    """

    environment: dict[str, str]
    summary: str = ""
    advise: Literal["", "always", "threads"] = ""
    needs: str = ""

    def known_to(self, library: Path | None) -> bool:
        """Does that library know the setting? True also if the library is not here."""
        return not self.needs or library is None or self.needs.encode() in library.read_bytes()


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file. `library` is empty for the C library's own malloc; `also`: the names of other versions.
    `proof`: how its library differs from others of the same file name. `package`: a name, or a pattern for the newest.
    `reads`: variables that set it up, beside those of its variants and tunables. `candidate`: not in a package, but
    `heaptape allocators install` has it. `by_name`: "always": used only if it is named.
    """

    library: str
    also: tuple[str, ...] = ()
    proof: Proof = Proof()
    package: str = ""
    summary: str = ""
    reads: tuple[str, ...] = ()
    candidate: bool = False
    by_name: Literal["", "always"] = ""
    variants: dict[str, Variant] = {}
    tunables: Tunables | None = None


class Allocator(Entry, frozen=True, kw_only=True):
    """An allocator of the registry, and its place on this machine. `look_alike`: another library of the same file name,
    if only that is here. `variants`: those that the library found knows; `other_variants`: those of other versions.
    `c_library`: it is another glibc than this system's.
    """

    name: str
    path: Path | None = None
    look_alike: Path | None = None
    version: str = ""
    other_variants: dict[str, Variant] = {}
    c_library: CLibrary | None = None

    @property
    def found(self) -> bool:
        return self.path is not None

    def settings_in(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Those variables that this allocator reads, by name."""
        named = {name for one in (self.variants | self.other_variants).values() for name in one.environment}
        if self.tunables:
            named.update(self.tunables.variable.replace("{NAME}", name.upper()) for name in self.tunables.names)
        return {
            name: environment[name]
            for name in sorted(environment)
            if name in named or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.reads)
        }

    @property
    def how_to_get(self) -> str:
        if self.candidate:
            return f"heaptape allocators install {self.name}"
        return f"apt-get install {_package_name(self.package)}" if self.package else "build it: make"


@dataclass(frozen=True)
class Choice:
    """An allocator with its settings: one column of a comparison. `preload` is empty if nothing is preloaded.
    `counting`: the environment in which it also counts its own operations; None: it can't. `as_recorded`: the allocator
    that the program was recorded on, with the settings that it had then. `c_library`: the glibc, not this system's,
    that the engine runs on; None: it runs on this system's.
    """

    allocator: str
    variant: str
    path: Path
    preload: str
    environment: dict[str, str]
    version: str = ""
    counting: dict[str, str] | None = None
    as_recorded: bool = False
    c_library: CLibrary | None = None

    @property
    def label(self) -> str:
        return self.allocator if self.variant == DEFAULT_VARIANT else f"{self.allocator}:{self.variant}"


def load(home: Home) -> dict[str, Allocator]:
    """The registry in its file's order, each allocator with its path (None: not found here) and version."""
    file = home.registry_file()
    entries = {name: checked(f"{file}: {name}", table, Entry) for name, table in read_toml(file).items()}
    names = {name: [entry.library, *entry.also] if entry.library else [] for name, entry in entries.items()}
    of_file = files_of([file for files in names.values() for file in files], home.library_directories())
    own = c_library()
    bundled = {one.record.name: one for one in installed.of_wheel()}
    places = {
        name: [path for file in names[name] for path in of_file[file]] if entry.library else [own] if own else []
        for name, entry in entries.items()
    }
    for name in places.keys() & bundled.keys():
        places[name].append(bundled[name].path)
    located = {
        name: next((path for path in places[name] if entry.proof.holds(path)), None) for name, entry in entries.items()
    }
    versions: dict[Path | None, str] = {one.path: one.record.version for one in bundled.values()}
    versions |= package_versions(tuple(path for path in located.values() if path and path not in versions))
    known = {}
    for name, entry in entries.items():
        path = located[name]
        version = versions.get(path) or _version_of(path)
        if not entry.library:
            entry = msgspec.structs.replace(entry, tunables=_listed(entry, version, c_libraries.own_loader()))
        one = _found(entry, entry.variants, name, path, version)
        look_alike = None if path else next(iter(places[name]), None)
        known[name] = msgspec.structs.replace(one, look_alike=look_alike)
    return known


def how_to_get_others(registry: dict[str, Allocator]) -> str:
    """Two lines for a user who has the C library's allocator only: which others there are, and what installs them."""
    others = [one for one in registry.values() if one.package and one.library]
    if any(one.found for one in others) or installed.find_all(installed.root()):
        return ""
    *first, last = (one.name for one in others)
    packages = [_package_name(one.package) for one in others]
    if IN_WHEEL.is_dir() and os.uname().machine == "x86_64":  # the extra has libraries for no other
        line = "pip install 'heaptape[allocators]'"
    elif not shutil.which("apt-get"):
        candidates = "heaptape allocators install mimalloc jemalloc"
        line = (
            candidates if shutil.which("cc") else "install them as this system does, or a C compiler for " + candidates
        )
    elif any("*" in package for package in packages):
        line = "after 'apt-get update' this command names the packages"
    else:
        line = f"apt-get install {' '.join(packages)}"
    names = f"{', '.join(first)} and {last}"
    return f"{names} are not installed here: only the C library's allocator is.\nTo compare them: {line}"


def is_library(name: str) -> bool:
    """Does `choose` take that name as a path?"""
    base = name.partition(":")[0]
    return not base.startswith(BUILT) and ("/" in base or base.endswith(".so"))


def library_of(name: str) -> Path:
    """The path in a name for which `is_library` is true."""
    return Path(name.partition(":")[0])


def choose(name: str, registry: dict[str, Allocator]) -> Choice:
    """The choice that `NAME[@VERSION][:VARIANT]`, `glibc=FOLDER[:VARIANT]`, `LIB.so` or any of them with
    `:NAME=VALUE[ NAME=VALUE...]` stands for.
    With VERSION it is the newest installed candidate of it; without one also, if NAME is not found elsewhere.

    Raises HeaptapeError, in one line that lists the known names, if it is unknown, not installed or not a file.
    """
    base, _, setting = name.partition(":")
    if is_library(name):
        path = library_of(name)
        if not path.is_file():
            raise HeaptapeError(f"{base}: no such library")
        path = path.resolve()
        if not _is_elf(path):
            raise HeaptapeError(f"{base}: not a shared library")
        environment = _settings(name, setting) if setting else {}
        return Choice(path.name, setting or DEFAULT_VARIANT, path, str(path), environment, _version_of(path))
    return choose_setting(named(base, registry, ", or the path of a library"), setting)


def choose_setting(allocator: Allocator, setting: str) -> Choice:
    """The allocator with a variant, or with `NAME=VALUE[ NAME=VALUE...]`. Raises HeaptapeError, as `choose` does."""
    base = allocator.name
    if allocator.path is None:
        why = (
            f"{allocator.look_alike} is another allocator" if allocator.look_alike else f"{allocator.library} not found"
        )
        raise HeaptapeError(f"{base} is not installed ({why}): {allocator.how_to_get}")
    if not setting or setting == DEFAULT_VARIANT:
        return _choice_of(allocator, allocator.path, DEFAULT_VARIANT, {})
    if setting in allocator.variants:
        environment = allocator.variants[setting].environment
    elif "=" in setting:
        environment = _environment(f"{base}:{setting}", setting, allocator)
    elif setting in allocator.other_variants:
        raise HeaptapeError(f"variant '{setting}' of {base}: not in this version ({allocator.version})")
    else:
        known = list(allocator.variants) or ["none"]
        raise unknown("variant", setting, known, "known are", ", or NAME=VALUE", f" of {base}")
    return _choice_of(allocator, allocator.path, setting, environment)


def _choice_of(allocator: Allocator, path: Path, variant: str, environment: dict[str, str]) -> Choice:
    preload = str(path) if allocator.library and not allocator.c_library else ""
    tunables = allocator.tunables
    counting = tunables.with_counting(environment) if tunables and tunables.counting else None
    version, c_library = allocator.version, allocator.c_library
    return Choice(allocator.name, variant, path, preload, environment, version, counting, c_library=c_library)


def named(name: str, registry: dict[str, Allocator], or_else: str = "") -> Allocator:
    """The allocator `NAME` or `NAME@VERSION`: of the registry, or an installed candidate with the variants and tunables
    that the registry has for NAME; or the one of `glibc=FOLDER`. `or_else`: what else the caller accepts, after the
    names that an error lists.

    Raises HeaptapeError.
    """
    if name == BUILT:
        raise UsageError(f"{name}: no folder is named behind it")
    if name.startswith(BUILT):
        return _on(registry[GLIBC], name, c_libraries.find(Path(name.removeprefix(BUILT))))
    base, at, version = name.partition("@")
    known = registry.get(base)
    if not at and known and known.path:
        return known
    candidates = installed.find_all(installed.root()) + installed.of_wheel()
    candidate = installed.newest(base, version, candidates)
    if candidate is None and at:
        there = [one.record.label for one in candidates if one.record.name == base]
        raise HeaptapeError(
            f"{name} is not installed (of {base} there are {', '.join(there) or 'none'}): "
            f"heaptape allocators install {name}"
        )
    if candidate and known and candidate.record.name == GLIBC:
        return _on(known, candidate.record.label, c_libraries.find(candidate.folder))
    if candidate:
        record = candidate.record
        like = known or Allocator(library=record.library, name=base)
        like = msgspec.structs.replace(like, library=record.library)
        return _found(like, like.variants | like.other_variants, record.label, candidate.path, record.version)
    if known is None:
        raise unknown("allocator", name, registry, "known are", or_else)
    return known


def _on(known: Allocator, name: str, c_library: CLibrary) -> Allocator:
    tunables = _listed(known, c_library.version, c_library.loader)
    like = msgspec.structs.replace(known, tunables=tunables)
    one = _found(like, known.variants | known.other_variants, name, c_library.library, c_library.version)
    return msgspec.structs.replace(one, c_library=c_library)


def _listed(entry: Entry, version: str, loader: Path | None) -> Tunables | None:
    """The C library's tunables, as its dynamic linker lists them."""
    names = c_libraries.tunables(loader) if loader else None
    return entry.tunables.of_version(short_version(version), names) if entry.tunables else None


def _found(entry: Entry, variants: dict[str, Variant], name: str, path: Path | None, version: str) -> Allocator:
    about = {key: getattr(entry, key) for key in Entry.__struct_fields__}
    known = {key: one for key, one in variants.items() if one.known_to(path)}
    about["variants"] = {key: one for key, one in known.items() if not _does_nothing(entry, one, version)}
    others = {key: one for key, one in variants.items() if key not in about["variants"]}
    return Allocator(**about, name=name, path=path, version=version, other_variants=others)


def _does_nothing(entry: Entry, variant: Variant, version: str) -> bool:
    tunables = entry.tunables
    settings = tunables.settings(variant.environment) if tunables else None
    if not tunables or not settings:
        return False
    return len(tunables.idle(settings, short_version(version))) == len(settings)


def choose_all(names: Iterable[str], registry: dict[str, Allocator]) -> list[Choice]:
    """`choose` for each name (for a range of values, one choice for each), or without names every allocator found
    except those that are used only by name. Refuses the same choice twice.
    """
    choices = [choose(one, registry) for name in names for one in expand(name, registry)]
    if not choices:
        choices = [choose(name, registry) for name, a in registry.items() if a.found and not a.by_name]
    seen: set[str] = set()
    for choice in choices:
        if choice.label in seen:
            raise HeaptapeError(f"{choice.label} is named twice")
        seen.add(choice.label)
    return choices


def expand(name: str, registry: dict[str, Allocator]) -> list[str]:
    """`NAME:TUNABLE=0..16/4` as the names of its values: 0, 4, 8, 12, 16. `1..64*2`: each twice the one before; for a
    tunable of the registry also `0,7,100` and mixtures. Several settings: all combinations. Raises HeaptapeError
    if a range is empty, or there are more than MOST_VALUES.
    """
    base, colon, setting = name.partition(":")
    known = registry.get(re.split("[@=]", base)[0])
    tunables = known.tunables if known else None
    found = [""]
    for pair in setting.split() if "=" in setting else [setting]:
        key, equals, text = pair.partition("=")
        listed = tunables is not None and key in tunables.names
        values = [v for item in (text.split(",") if listed else [text]) for v in _values(name, item)]
        found = [f"{before} {key}{equals}{value}".strip() for before in found for value in values]
        if len(found) > MOST_VALUES:
            raise HeaptapeError(f"{name}: more than {MOST_VALUES} values")
    return [f"{base}{colon}{one}" for one in found]


def _values(name: str, text: str) -> list[str]:
    """The values of a range; other text unchanged."""
    match = re.fullmatch(r"(\d+)\.\.(\d+)(?:([/*])(\d+))?", text)
    if not match:
        return [text]
    first, last, step = int(match[1]), int(match[2]), int(match[4] or 1)
    grows = match[3] == "*"
    if first > last or step < 1 + grows or (grows and first == 0):
        raise HeaptapeError(f"{name}: '{text}' is not a range: FIRST..LAST, FIRST..LAST/STEP or FIRST..LAST*FACTOR")
    values = [first]
    while (after := values[-1] * step if grows else values[-1] + step) <= last and len(values) <= MOST_VALUES:
        values.append(after)
    return [str(value) for value in values]


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _environment(name: str, text: str, allocator: Allocator) -> dict[str, str]:
    """Settings of an allocator of the registry: its tunables by name, other names as environment variables.

    Environment variables are in capitals. Another name that is not a tunable is a mistake, which
    the allocator itself might ignore silently.
    """
    settings = _settings(name, text)
    known = allocator.tunables
    if known is None:
        return settings
    tunables = {key: value for key, value in settings.items() if key in known.names}
    others = {key: value for key, value in settings.items() if key not in known.names}
    slips = [key for key in others if not key.isupper()]
    if slips:
        raise unknown("tunable", slips[0], known.names, "known are", of=f" of {allocator.name}")
    version = short_version(allocator.version)
    for key in known.idle(tunables, version):
        raise HeaptapeError(f"{name}: {known.why_idle(key, version)}")
    try:
        known.check(tunables)
    except HeaptapeError as error:
        raise HeaptapeError(f"{allocator.name}: {error}") from None
    return others | known.environment(tunables)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _settings(name: str, text: str) -> dict[str, str]:
    """NAME=VALUE pairs, separated by spaces, as ':' and ',' occur inside allocators' own settings."""
    settings = {}
    for pair in text.split():
        key, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise HeaptapeError(f"{name}: '{pair}' is not NAME=VALUE")
        settings[key] = value
    return settings


def files_of(names: list[str], own: list[Path]) -> dict[str, list[Path]]:
    """Library file name -> the files of that name: in our own directories, then the one in the linker's cache, then in
    the standard directories.
    """
    cache = _linker_cache()
    standard = [
        Path(p)
        for p in ("/usr/local/lib", "/usr/lib", "/lib", "/usr/lib64", f"/usr/lib/{os.uname().machine}-linux-gnu")
    ]
    found = {}
    for name in names:
        files = [directory / name for directory in own]
        files += [cache[name]] if name in cache else []
        files += [directory / name for directory in standard]
        found[name] = [file for file in files if file.is_file()]
    return found


def _package_name(pattern: str) -> str:
    """The newest of apt's packages that match; the pattern itself if there is none."""
    stem, star, _ = pattern.partition("*")
    names = _run("apt-cache", "pkgnames", stem.partition("[")[0]).split() if star else []
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    return max(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default=pattern)


def _run(*command: str) -> str:
    """Standard output of a system tool; empty if it is missing or fails."""
    try:
        return subprocess.run(
            command, capture_output=True, errors="replace", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        ).stdout
    except OSError:
        return ""


def _linker_cache() -> dict[str, Path]:
    """Soname -> path from `ldconfig -p`; the first entry is the one that the linker uses on this machine."""
    cache: dict[str, Path] = {}
    # As an emulated program sees it, the cache is the host's.
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(os.uname().machine, "")
    for line in _run("ldconfig", "-p").splitlines():
        match = re.match(r"\s+(\S+) \((.*)\) => (\S+)", line)
        if match and kind in match[2]:
            cache.setdefault(match[1], Path(match[3]))
    return cache


def c_library() -> Path | None:
    """Path of the C library that this process runs on; the engine runs on the same one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libc.so") or re.fullmatch(r"libc-[0-9.]+\.so", path.name):
            return path
    return None


@functools.cache
def package_versions(paths: tuple[Path, ...]) -> dict[Path | None, str]:
    """Versions of the Debian packages that own these files. dpkg lists some files under /lib, others under /usr/lib.
    The result is kept, as dpkg takes 0.1 s of CPU time.
    """
    spellings: dict[str, Path] = {}
    for path in paths:
        for spelling in {str(path), str(path.resolve())}:
            spellings[spelling] = path
            spellings[spelling.removeprefix("/usr")] = path
            spellings["/usr" + spelling.removeprefix("/usr")] = path
    owners: dict[Path, str] = {}
    for line in _run("dpkg-query", "-S", *spellings).splitlines() if spellings else []:
        package, _, file = line.partition(": ")
        if file in spellings and not package.startswith("diversion"):
            owners[spellings[file]] = package.split(",")[0]
    if not owners:
        return {}
    text = _run("dpkg-query", "-W", "-f", "${binary:Package} ${Version}\\n", *set(owners.values()))
    versions = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return {
        path: f"{package.partition(':')[0]} {versions[package]}"
        for path, package in owners.items()
        if package in versions
    }


def _version_of(path: Path | None) -> str:
    """For a file without a package: glibc's own, or the version at the end of its real name; else empty."""
    if path and path == c_library():
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    match = re.search(r"\.so\.([0-9.]+)$", path.resolve().name) if path else None
    return match[1] if match else ""
