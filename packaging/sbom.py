# SPDX-License-Identifier: MIT
"""sbom KIND VENV PROGRAM...: prints the package's parts as CycloneDX JSON. KIND is wheel or deb.

Bundled parts have a version: the libraries that the PROGRAMs load, in a wheel; msgspec, in a Debian package; Valgrind's
core. Mere dependencies are listed without a version, which the user's machine decides.
"""

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

# Every manylinux system has these, and every Debian system.
OF_THE_SYSTEM = ("libc6", "libstdc++6", "libgcc-s1", "zlib1g")


def main(kind: str, venv: Path, programs: list[str]) -> None:
    bundled = [_debian("valgrind")] if (Path(programs[0]).parent / "valgrind").is_dir() else []
    if kind == "wheel":
        bundled += [_debian(package) for package in sorted(_packages(programs))]
    else:
        bundled.append(_python("msgspec", _version(venv, "msgspec")))
    dependencies = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=!~\[ ]", line)[0] for line in dependencies} - {part.name for part in bundled}
    bom = Bom(components=[*bundled, *(_python(name, None) for name in sorted(names))])
    bom.metadata.component = Component(
        name="heaptape", version=__version__, type=ComponentType.APPLICATION, bom_ref="heaptape"
    )
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.serial_number = uuid5(NAMESPACE_URL, f"heaptape {kind} {__version__} {bom.metadata.timestamp}")
    bom.register_dependency(bom.metadata.component, bom.components)
    print(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1))


def _packages(programs: list[str]) -> set[str]:
    """Debian packages of the libraries that the programs load."""
    lines = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    files = {str(Path(path).resolve()) for path in re.findall(r"=> (/\S+)", lines)}
    # dpkg lists a file by the path at which it was installed: with or without /usr.
    names = {name for file in files for name in (file, file.removeprefix("/usr"))}
    found = subprocess.run(["dpkg-query", "-S", *sorted(names)], capture_output=True, text=True).stdout
    return {line.partition(":")[0] for line in found.splitlines()} - set(OF_THE_SYSTEM)


def _debian(package: str) -> Component:
    version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True).stdout
    return _part(package, version, PackageURL("deb", "debian", package, version, {"arch": "amd64"}))


def _python(name: str, version: str | None) -> Component:
    return _part(name, version, PackageURL("pypi", None, name, version))


def _part(name: str, version: str | None, purl: PackageURL) -> Component:
    where = Property(name="heaptape:bundled", value="yes" if version else "no")
    return Component(name=name, version=version, purl=purl, bom_ref=purl.to_string(), properties=[where])


def _version(venv: Path, package: str) -> str:
    (info,) = venv.glob(f"lib/python3*/site-packages/{package}-*.dist-info")
    return info.name.removeprefix(f"{package}-").removesuffix(".dist-info")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
