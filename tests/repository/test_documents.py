# SPDX-License-Identifier: MIT
"""The documents' links lead to files that are there, and the index and the site's menu have every document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = [
    "allocators",
    "analysis",
    "capture",
    "convert",
    "core",
    "docs",
    "machine",
    "observe",
    "packaging",
    "replay",
    "tests",
    "tools",
    "workloads",
]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for part in PARTS for path in (ROOT / part).rglob("*.md"))])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text()) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_index_of_documents_has_each() -> None:
    links = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= links


def test_the_menu_of_the_site_has_each_document() -> None:
    menu = (ROOT / "packaging" / "site" / "mkdocs.yml").read_text()
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}\n" not in menu] == []
