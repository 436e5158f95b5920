# SPDX-License-Identifier: MIT
"""Links to documents and their names lead to existing files; the site's index and menu have every document."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


DOCUMENTS = [ROOT / name for name in git("ls-files", "*.md")]
OF_DOCS = [name.removeprefix("docs/") for name in git("ls-files", "docs/*.md", ":!docs/measurements")]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text()) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_path_below_docs_that_a_file_names_exists() -> None:
    named = git("grep", "-oIE", r"\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9_]")
    assert [line for line in named if not (ROOT / line.partition(":")[2]).exists()] == []


def test_the_index_of_documents_has_each() -> None:
    assert set(OF_DOCS) - {"README.md"} <= set(LINK.findall((ROOT / "docs" / "README.md").read_text()))


def test_the_menu_of_the_site_has_each_document() -> None:
    menu = (ROOT / "packaging" / "site" / "mkdocs.yml").read_text()
    assert [name for name in OF_DOCS if f"docs/{name}\n" not in menu] == []
