# SPDX-License-Identifier: MIT
"""packaging/site COMMAND FOLDER: the documents as a site of HTML pages, in FOLDER/html. COMMAND: a heaptape that can be
run, for the help of the C programs.

The documents keep their places, so that their links to each other hold; a page for each command is added, made from the
same definition as its man page. mkdocs.yml is the menu. A link to a document, or to a part of one, that does not exist
ends with an error.
"""

import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import markdown_pages
from commands import pages
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def linked(document: Path) -> list[Path]:
    """The files that a document links to; missing ones are left to MkDocs, which reports them."""
    links = [document.parent / link for link in LINK.findall(document.read_text()) if "://" not in link]
    return [link.resolve() for link in links if link.is_file()]


def stage(command: Path, source: Path) -> None:
    """Puts documents, the files they link to, and the pages of commands below `source`, which is made again."""
    shutil.rmtree(source, ignore_errors=True)
    found = documents()
    for path in {*found, *(target for document in found for target in linked(document))}:
        place = source / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    markdown_pages.write(pages(command), source / "commands")


def main(command: Path, folder: Path) -> None:
    """Builds the site. Errors are logged on standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    source = folder.resolve() / "source"
    stage(command, source)
    build(
        load_config(
            str(Path(__file__).with_name("mkdocs.yml")), docs_dir=str(source), site_dir=str(source.with_name("html"))
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
