# SPDX-License-Identifier: MIT
"""sbom VENV PREFIX [PACKAGES]: prints the parts of the package whose files are in PREFIX as CycloneDX JSON.
sbom ALLOCATORS: those of the wheel of that folder of candidates.

Bundled parts have a version: in a wheel, the libraries of PACKAGES (lines of a Debian package and its version); in a
Debian package, msgspec; Valgrind's core. Mere dependencies have none: the user's machine decides.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from heaptape.common.version import __version__
from packageurl import PackageURL

ARCHITECTURE = "arm64" if os.environ.get("WHEEL_MACHINE") == "aarch64" else "amd64"
# Every manylinux system has these.
OF_THE_SYSTEM = ("libc6", "zlib1g")


def main(*paths: Path) -> None:
    name, kind, components = _of_heaptape(*paths) if len(paths) > 1 else _of_allocators(*paths)
    bom = Bom(components=components)
    bom.metadata.component = Component(name=name, version=__version__, type=ComponentType.APPLICATION, bom_ref=name)
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.serial_number = uuid5(NAMESPACE_URL, f"{name} {kind} {__version__} {bom.metadata.timestamp}")
    bom.register_dependency(bom.metadata.component, bom.components)
    print(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1))


def _of_allocators(folder: Path) -> tuple[str, str, list[Component]]:
    parts = [_debian("libstdc++-12-dev", _installed("libstdc++-12-dev"))]
    for path in sorted(folder.glob("*/record.json")):
        record = json.loads(path.read_text())
        source = record["source"]
        purl = PackageURL("cargo", None, source["package"], source["release"])
        parts.append(_part(record["name"], record["version"], purl))
    return "heaptape-allocators", "wheel", parts


def _of_heaptape(venv: Path, prefix: Path, packages: Path | None = None) -> tuple[str, str, list[Component]]:
    bundled = [_debian("valgrind", _installed("valgrind"))] if (prefix / "libexec/heaptape/valgrind").is_dir() else []
    if packages:
        parts = (line.split() for line in sorted(packages.read_text().splitlines()))
        bundled += [_debian(*part) for part in parts if part[0] not in OF_THE_SYSTEM and not part[0].endswith("-dev")]
    else:
        bundled.append(_python("msgspec", _version(venv, "msgspec")))
    dependencies = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=!~\[ ]", line)[0] for line in dependencies} - {part.name for part in bundled}
    components = [*bundled, *(_python(name, None) for name in sorted(names))]
    return "heaptape", "wheel" if packages else "deb", components


def _installed(package: str) -> str:
    """Its version on this machine."""
    return subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True).stdout


def _debian(package: str, version: str) -> Component:
    return _part(package, version, PackageURL("deb", "debian", package, version, {"arch": ARCHITECTURE}))


def _python(name: str, version: str | None) -> Component:
    return _part(name, version, PackageURL("pypi", None, name, version))


def _part(name: str, version: str | None, purl: PackageURL) -> Component:
    where = Property(name="heaptape:bundled", value="yes" if version else "no")
    return Component(name=name, version=version, purl=purl, bom_ref=purl.to_string(), properties=[where])


def _version(venv: Path, package: str) -> str:
    (info,) = venv.glob(f"lib/python3*/site-packages/{package}-*.dist-info")
    return info.name.removeprefix(f"{package}-").removesuffix(".dist-info")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
