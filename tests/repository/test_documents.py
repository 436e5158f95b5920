# SPDX-License-Identifier: MIT
"""What documents name is there: files, functions; documents of JSON have every output and every key of results."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from heaptape.commands.main import make_parser
from heaptape.results import structs
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.output_shapes import OF_LISTS, OUTPUTS, output_of, schemas

ROOT = Path(__file__).resolve().parents[2]


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


DOCUMENTS = [ROOT / name for name in git("ls-files", "*.md")]
DEFINE_RESULTS = (
    "docs/formats/RESULTS.md",
    "docs/formats/ORIGINS.md",
    "docs/use/BLAME.md",
    "core/workload/WORKLOAD.md",
    "core/sharing/line_sharing.h",
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
NAME = re.compile(r"`([\w./-]+\.(?:c|h|py)):(\w+)`")


def parts(document: Path, *kinds: str) -> list[Token]:
    """The document's parts of these kinds, as markdown-it calls them, in their order."""
    blocks = MARKDOWN.parse(document.read_text())
    return [one for block in blocks for one in (block, *(block.children or ())) if one.type in kinds]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    links = [str(one.attrGet("href") or one.attrGet("src")) for one in parts(document, "link_open", "image")]
    links = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_path_below_docs_that_a_file_names_exists() -> None:
    named = git("grep", "-oIE", r"\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9_]")
    assert [line for line in named if not (ROOT / line.partition(":")[2]).exists()] == []


def test_each_function_that_architecture_names_is_in_its_file() -> None:
    named = NAME.findall((ROOT / "docs/ARCHITECTURE.md").read_text())
    assert {"capture", "core", "convert", "replay", "analysis"} <= {file.partition("/")[0] for file, _ in named}
    assert [(file, name) for file, name in named if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []


def keys_of(schema: dict) -> set[str]:
    return {key for part in schema["$defs"].values() for key in part.get("properties", {})}


def test_every_command_with_json_has_a_published_shape() -> None:
    parsers = next(one.choices for one in make_parser()._actions if isinstance(one.choices, dict))
    printed = {output_of(name) for name, one in parsers.items() if "--json" in one._option_string_actions}
    printed |= {output_of(command, name) for command, names in OF_LISTS.items() for name in names}
    assert len(printed) > 15
    assert printed - {"results"} <= set(OUTPUTS)


def test_each_key_that_agents_are_told_to_read_is_printed() -> None:
    rows = re.findall(r"^\| `heaptape (\w+) [^|]*\| (.*) \|$", (ROOT / "docs/AGENTS.md").read_text(), re.MULTILINE)
    published = schemas()
    told = {
        (row[0], key) for row in rows for name in re.findall("`([^`]*)`", row[1]) for key in re.findall(r"\w+", name)
    }
    assert len(told) > 15
    assert sorted((command, key) for command, key in told if key not in keys_of(published[command])) == []


def test_agents_are_told_which_answers_have_sentences() -> None:
    (line,) = re.findall(r"^All but (.*) have `about`", (ROOT / "docs/AGENTS.md").read_text(), re.MULTILINE)
    without, also = (set(re.findall(r"`(\w+)`", part)) for part in line.split(", and ", 1))
    rows = set(re.findall(r"^\| `heaptape (\w+) ", (ROOT / "docs/AGENTS.md").read_text(), re.MULTILINE))
    with_sentences = {name for name, schema in schemas().items() if "sentences" in keys_of(schema)}
    assert rows - without | also == with_sentences | {"replay", "whatif"}  # results, with the answer's keys added


def words_of(*names: str) -> set[str]:
    return set(re.findall(r"[\w-]+", " ".join((ROOT / name).read_text() for name in names)))


def test_the_list_of_schemas_has_each_output() -> None:
    assert set(OUTPUTS) <= words_of("docs/formats/SCHEMAS.md")


def test_the_format_of_results_has_each_key_of_the_schema() -> None:
    keys = {
        key
        for kind in vars(structs).values()
        if isinstance(kind, msgspec.StructMeta)
        for key in kind.__struct_encode_fields__
    }
    assert keys <= words_of(*DEFINE_RESULTS)
