# SPDX-License-Identifier: MIT
"""Archives of crates.io, kept after the first download. Uses the sparse protocol of its index, or a local registry.
Cargo's configuration determines the replacement of crates.io (`[source.crates-io] replace-with`), the environment the
proxy (HTTPS_PROXY) and the certificates (SSL_CERT_FILE).
"""

import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO

from heaptape.allocators.installed import Source
from heaptape.allocators.registry import sha256_of
from heaptape.common.checked import read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.common.process import scratch_folder
from heaptape.common.version import __version__

INDEX = "sparse+https://index.crates.io/"
MOST_INDEX_BYTES = 16 << 20
MOST_ARCHIVE_BYTES = 256 << 20  # crates.io takes 10 MiB
TIMEOUT_S = 60


def fetch(package: str, release: str, kept: Path) -> tuple[Path, Source]:
    """The archive of a crate's release, from `kept` if it is there undamaged, else from the registry; its checksum is
    compared with the index. Raises HeaptapeError.
    """
    archive = kept / f"{package}-{release}.crate"
    note = archive.with_suffix(".sha256")
    if not (archive.is_file() and note.is_file() and note.read_text().strip() == sha256_of(archive)):
        checksum = _checksum(package, release)
        kept.mkdir(parents=True, exist_ok=True)
        with scratch_folder(kept, ".fetching-") as scratch:
            part = scratch / archive.name
            _download(package, release, checksum, part)
            note.unlink(missing_ok=True)
            part.replace(archive)
        note.write_text(f"{checksum}\n")
    return archive, Source("crates.io", package, release, sha256_of(archive))


def _checksum(package: str, release: str) -> str:
    path = _index_path(package)
    source = _source()
    if isinstance(source, Path):
        file = source / "index" / path
        if not file.is_file():
            raise HeaptapeError(f"{file}: no such crate")
        data = file.read_bytes()
    else:
        data = _read(f"{source}{path}", f"crate {package}")
    known = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        try:
            entry = json.loads(line)
            known[str(entry["vers"])] = str(entry["cksum"])
        except (ValueError, KeyError, TypeError):
            raise HeaptapeError(f"index of crate {package}: line {number} is malformed") from None
    if release not in known:
        raise HeaptapeError(f"crate {package} has no release {release}: there are {', '.join(known) or 'none'}")
    return known[release]


def _download(package: str, release: str, checksum: str, into: Path) -> None:
    source = _source()
    if isinstance(source, Path):
        shutil.copyfile(source / f"{package}-{release}.crate", into)
    else:
        with _opened(_archive_url(source, package, release, checksum), f"crate {package}") as answer:
            _copy(answer, into, f"crate {package} {release}")
    found = sha256_of(into)
    if found != checksum:
        raise HeaptapeError(f"crate {package} {release}: its sha256 is {found}, the index says {checksum}")


def _archive_url(source: str, package: str, release: str, checksum: str) -> str:
    """The URL by the template of the registry's config.json."""
    try:
        template = json.loads(_read(f"{source}config.json", "the registry's config.json"))["dl"]
    except (ValueError, KeyError, TypeError):
        raise HeaptapeError(f"{source}config.json: malformed") from None
    prefix = _prefix(package)
    values = {
        "{crate}": package,
        "{version}": release,
        "{prefix}": prefix,
        "{lowerprefix}": prefix.lower(),
        "{sha256-checksum}": checksum,
    }
    if not any(marker in template for marker in values):
        template += "/{crate}/{version}/download"
    for marker, value in values.items():
        template = template.replace(marker, urllib.parse.quote(value))
    return template


def _index_path(package: str) -> str:
    return f"{_prefix(package.lower())}/{package.lower()}"


def _prefix(name: str) -> str:
    """Folders by a name's first letters: ab/cd of abcde, 3/a of abc."""
    if len(name) < 4:
        return f"{len(name)}{'/' + name[0] if len(name) == 3 else ''}"
    return f"{name[:2]}/{name[2:4]}"


def _source() -> str | Path:
    """The URL of the index, or the folder of a local registry."""
    sources = _cargo_configuration().get("source", {})
    name, seen = "crates-io", set[str]()
    while isinstance(table := sources.get(name, {}), dict) and "replace-with" in table and name not in seen:
        seen.add(name)
        name = str(table["replace-with"])
    if "local-registry" in table:
        return Path(table["local-registry"])
    index = str(table.get("registry", INDEX if name == "crates-io" else ""))
    url = index.removeprefix("sparse+")
    if url == index or not url.startswith(("http://", "https://")):
        raise HeaptapeError(f"cargo's source '{name}' is neither sparse+https://... nor a local-registry")
    return url if url.endswith("/") else f"{url}/"


def _cargo_configuration() -> dict:
    folder = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    file = next((path for path in (folder / "config.toml", folder / "config") if path.is_file()), None)
    return read_toml(file) if file else {}


@contextmanager
def _opened(url: str, what: str) -> Iterator[IO[bytes]]:
    if not url.startswith(("http://", "https://")):
        raise HeaptapeError(f"{what}: {url}: neither http nor https")
    # The registry's rules require a name.
    request = urllib.request.Request(url, headers={"User-Agent": f"heaptape/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise HeaptapeError(f"{what}: {url}: {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise HeaptapeError(f"{what}: {url}: {error.reason}") from None
    except (HTTPException, TimeoutError, ConnectionError) as error:
        raise HeaptapeError(f"{what}: {url}: {str(error) or type(error).__name__}") from None


def _read(url: str, what: str) -> bytes:
    with _opened(url, what) as answer:
        data = answer.read(MOST_INDEX_BYTES + 1)
    if len(data) > MOST_INDEX_BYTES:
        raise HeaptapeError(f"{url}: more than {MOST_INDEX_BYTES >> 20} MiB")
    return data


def _copy(answer: IO[bytes], into: Path, what: str) -> None:
    total = 0
    with into.open("wb") as file:
        while chunk := answer.read(1 << 20):
            total += len(chunk)
            if total > MOST_ARCHIVE_BYTES:
                raise HeaptapeError(f"{what}: more than {MOST_ARCHIVE_BYTES >> 20} MiB")
            file.write(chunk)
