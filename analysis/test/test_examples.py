# SPDX-License-Identifier: MIT
"""What the product's functions give for many inputs is what they gave: the files *.examples beside the tests hold
statements, each with what it prints. `make golden` writes that anew; read the difference.
"""

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.support import same_as_before

ANALYSIS = Path(__file__).resolve().parents[1]
LONG = re.compile(r"\d+\.\d{7,}(e[-+]\d+)?")  # figures whose last digits depend on the libraries


def answered(text: str, folder: Path) -> str:
    """The statements, each with what it prints now, or with its error. `HERE` is the file's folder."""
    names: dict[str, object] = {"HERE": folder}
    said = []
    for source in re.findall(r"^>>> .*\n(?:\.\.\. .*\n)*", text, re.MULTILINE):
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
            try:
                lines = (line[4:] for line in source.splitlines())
                exec(compile("\n".join(lines) + "\n", source, "single"), names)
            except (ImportError, NameError, SyntaxError):
                raise  # of the statements themselves: nothing is stated
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
        shown = printed.getvalue().replace(str(Path.cwd()), "CWD").replace(sys.executable, "PYTHON")
        said.append(source + LONG.sub(lambda found: f"{float(found[0]):.6g}", shown))
    return "".join(said)


@pytest.mark.parametrize("path", sorted(ANALYSIS.rglob("*.examples")), ids=lambda path: path.stem)
def test_what_is_said_of_many_inputs_is_what_was_said(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    same_as_before(path, answered(path.read_text(), path.parent))
