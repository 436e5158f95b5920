# SPDX-License-Identifier: MIT
"""A pass is added by the steps of CONTRIBUTING.md ("Add a pass"), in a copy of the tree, and nothing else is needed:
the engine makes it, reports it and describes it, and `heaptape replay` makes it beside others.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..engine import make

ROOT = Path(__file__).resolve().parents[3]
PASS = """/* SPDX-License-Identifier: MIT */
/* The pass sizes: how many ops there are of each size class. */
#include "replay/engine/loop.h"
#include "replay/parent/run.h"

struct counts {
  uint64_t ops[SIZE_CLASSES];
};

static ALWAYS_INLINE void after_op(const struct step *step, int64_t before) {
  (void)before;
  struct counts *own = step->own;
  own->ops[size_class(step->op->request_bytes)]++;
}

static void add_worker(const struct worker *worker) {
  struct counts *all = engine.figures;
  const struct counts *own = worker->own;
  for (unsigned class = 0; class < SIZE_CLASSES; class ++)
    all->ops[class] += own->ops[class];
}

static const struct loop_hooks hooks = {.after_op = after_op};
PASS_LOOPS(sizes, hooks, hooks)

static void report(json_t *into, const struct run *run) {
  const struct counts *counts = run->figures;
  json_t *ops = json_array();
  for (unsigned class = 0; class < SIZE_CLASSES; class ++)
    json_array_append_new(ops, json_unsigned(counts->ops[class]));
  json_object_set_new(into, "ops_by_size", ops);
}

static const struct pass pass_sizes = {
    .name = "sizes",
    .turn = 1000,
    .summary = "ops by size class",
    .order = ORDER_WINDOW,
    .repeats = ONCE,
    .exact = true,
    .loops = {sizes_freely, sizes_by_turns},
    .worker_bytes = sizeof(struct counts),
    .figures_bytes = sizeof(struct counts),
    .add_worker = add_worker,
    .report = report,
};
REGISTER_PASS(pass_sizes);
"""


def copy_of_the_tree(to: Path) -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and not name.endswith((".tape", ".zip")):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_a_pass_is_one_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    copy_of_the_tree(tree)
    (tree / "replay/passes/sizes.c").write_text(PASS)
    built = ["out/libexec/heaptape-replay", "out/lib/replay.json"]
    subprocess.run(["make", "-j2", "OUT=out", *built], cwd=tree, check=True, capture_output=True)
    work = tmp_path / "a.work"
    make(work, ops=5000, threads=2)
    made = subprocess.run([tree / built[0], "--pass", "sizes", work], capture_output=True, text=True, check=True)
    run = json.loads(made.stdout)
    assert run["pass"] == "sizes"
    assert sum(run["ops_by_size"]) == run["ops"] > 0
    results = tmp_path / "R.json"
    options = ["--passes", "memory,sizes", "-a", "glibc", "-o", results]
    command = [sys.executable, "-m", "heaptape", "replay", work, *options]
    environment = {name: value for name, value in os.environ.items() if name != "HEAPTAPE_OUT"}
    environment["PYTHONPATH"] = str(tree / "analysis")
    subprocess.run(command, env=environment, cwd=tree, check=True, capture_output=True)
    runs = [one for one in json.loads(results.read_text())["runs"] if one["pass"] == "sizes"]
    assert [one["ops_by_size"] for one in runs] == [run["ops_by_size"]]
