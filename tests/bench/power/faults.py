# SPDX-License-Identifier: MIT
"""Plans faults: small changes of product lines, by universalmutator (Groce et al., ICSE 2018).

Lines are drawn evenly from all product files, with a seed. A change that compilers warn of, or that makes the same
object code (the same bytecode, in Python, without what only type checkers read), is not a fault. Headers are left out.
"""

import ast
import contextlib
import functools
import io
import os
import random
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
MARKS = "not long and not packages and not aarch64"  # of the default tests

RULES = {"c": ["universal.rules", "c_like.rules", "c.rules"], "python": ["universal.rules", "python.rules"]}
NOT_PRODUCT = ("test", "tests", "fuzz", "bench", "packaging", "tools")
COMPILE = "gcc -std=gnu11 -D_GNU_SOURCE -I. -O2 -Wall -Wextra -Werror -S -o - -x c -"


def run_file(name: str, plugin: str, environment: dict[str, str], *before: str) -> None:
    """Runs the default tests of a file with a plugin, by a command that begins with `before`; prints how they ended."""
    command = [*before, sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", "-m", MARKS, name]
    everywhere = os.environ | environment
    done = subprocess.run(command, cwd=REPOSITORY, env=everywhere, capture_output=True, text=True, check=False)
    print(f"{name}: {(done.stdout + done.stderr).strip().rpartition(chr(10))[2]}", flush=True)


def product_files(language: str) -> list[Path]:
    suffix = {"c": ".c", "python": ".py"}[language]
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listed.splitlines() if line.endswith(suffix)]
    paths = [path for path in paths if not set(path.parts[:-1]) & set(NOT_PRODUCT) and path.name != "conftest.py"]
    skip = ("observe", "workloads")  # built by Valgrind's rules, or programs that are measured
    return [path for path in paths if language == "python" or path.parts[0] not in skip]


@functools.cache
def meaning(path: Path, text: str) -> bytes | None:
    """What the compiler makes of it; None where it refuses."""
    if path.suffix == ".c":
        command = [*shlex.split(COMPILE), f"-I{path.parent}"]
        done = subprocess.run(command, input=text.encode(), cwd=REPOSITORY, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None
    try:
        tree = WhatRuns().visit(ast.parse(text))
        return repr(bytecode(compile(tree, str(path), "exec", optimize=2))).encode()  # 2: without docstrings
    except (SyntaxError, ValueError):
        return None


class WhatRuns(ast.NodeTransformer):
    """Leaves out annotations, but of classes' fields, which libraries read; and what is imported for them."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for inner in node.body:
            if not isinstance(inner, ast.AnnAssign):
                self.visit(inner)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.copy_location(ast.Constant(None), node)
        return node


def bytecode(code: types.CodeType) -> tuple:
    """The code without its line numbers."""
    inner = [bytecode(value) if isinstance(value, types.CodeType) else value for value in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_exceptiontable, inner


def mutants(line: str, language: str) -> list[str]:
    from universalmutator import mutator  # only to plan; not a dependency of tests

    with contextlib.redirect_stdout(io.StringIO()):
        return [found[1] for found in mutator.mutants_regexp([line], ruleFiles=RULES[language], ignorePatterns=[])]


def planted(text: str, fault: dict) -> str:
    lines = text.splitlines(True)
    assert lines[fault["line"] - 1] == fault["before"], (
        f"{fault['file']}: not the tree that the faults were planned for"
    )
    return "".join([*lines[: fault["line"] - 1], fault["after"], *lines[fault["line"] :]])


def plan(language: str, number: int, seed: int) -> Iterator[dict]:
    rng = random.Random(f"{seed} {language}")
    texts = {path: (REPOSITORY / path).read_text() for path in product_files(language)}
    places = [(path, line) for path, text in texts.items() for line in range(1, text.count("\n") + 1)]
    while number:
        path, line = rng.choice(places)
        before = texts[path].splitlines(True)[line - 1]
        choices = mutants(before, language)
        if not choices or before.strip().startswith(("//", "#", "*")):
            continue
        fault = {"file": str(path), "line": line, "before": before, "after": rng.choice(choices)}
        was, now = meaning(path, texts[path]), meaning(path, planted(texts[path], fault))
        if was is None or now is None or was == now:
            continue
        number -= 1
        yield fault
