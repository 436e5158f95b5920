# SPDX-License-Identifier: MIT
"""`heaptape report --notebook`: the report as a Jupyter notebook, to be continued by its reader.

It reads the results from their present place (relative to the notebook) and uses only the public interface of
docs/use/PYTHON.md, so that its reader can do the same.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from heaptape.common.errors import UsageError
from heaptape.results.comparing.compare import choose_baseline
from heaptape.results.schema import Results, all_results

SETUP = """\
import heaptape
import matplotlib.pyplot as plt

paths = {paths}
baseline = {baseline!r}
files = [file for path in paths for file in heaptape.all_results(path)]
table = heaptape.compare(*files, baseline=baseline)"""

IN_SHORT = """\
for sentence in heaptape.in_words(files, baseline):
    print("-", sentence)"""

PERCENTAGES = """\
shown = table[table["metric"].isin(["total_cycles", "peak_rss", "mean_rss", "page_faults"])]
shown.pivot_table(index=["workload", "allocator"], columns="metric", values="percent", sort=False).round(1)"""

AGAINST_BASELINE = """\
labels = [name for name in dict.fromkeys(table["allocator"]) if name != baseline]
figure, axes = plt.subplots(1, 2, figsize=(11, 1 + 0.3 * len(labels)), sharey=True, layout="constrained")
for axis, metric in zip(axes, ["total_cycles", "peak_rss"]):
    heaptape.show.figures.against_baseline(axis, table[table["metric"] == metric], labels)
    axis.set_xlabel(f"{metric}, % of {baseline}")"""

PROGRESS = """\
timelines = file.timelines()
figure, axes = plt.subplots(figsize=(11, 4), layout="constrained")
heaptape.show.figures.memory_over_progress(axes, timelines, "rss_anon_bytes", file.workload.get("recorded") or [])
axes.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False);"""

MAPS = """\
maps = file.memory_maps()
height_bytes = max(each.height_bytes for each in maps.values())
figure, axes = plt.subplots(len(maps), 1, figsize=(11, 3.2 * len(maps)), squeeze=False, layout="constrained")
for axis, (allocator, each) in zip(axes[:, 0], maps.items()):
    heaptape.show.figures.memory_map(axis, each, height_bytes)
    axis.set_title(allocator)"""

LATENCIES = """\
calls = file.calls()
busiest = calls.groupby("call")["count"].sum().nlargest(3).index
figure, axes = plt.subplots(len(busiest), 1, figsize=(11, 2.6 * len(busiest)), squeeze=False, layout="constrained")
for axis, call in zip(axes[:, 0], busiest):
    heaptape.show.figures.latencies(axis, calls[calls["call"] == call], file.labels)
    axis.set_title(call)
axes[0, 0].legend(ncols=5);"""


def notebook(sources: Sequence[str], baseline: str | None, output: str) -> str:
    """The notebook of these results files or reports, as text. `output`: its future path, or "-" (then it names the
    results by absolute paths).

    Raises UsageError for standard input, which a notebook could not read again, HeaptapeError for an unknown baseline,
    and the errors of `all_results`.
    """
    if "-" in sources:
        raise UsageError("report --notebook: reads the results files again, so standard input can't be used")
    files = [file for source in sources for file in all_results(source)]
    baseline = choose_baseline(files, baseline)
    folder = None if output == "-" else Path(output).resolve().parent
    paths = [_from(folder, source) for source in sources]
    cells = [
        new_markdown_cell(
            f"# What each allocator costs: {_inline(', '.join(file.name for file in files))}\n\n"
            f"Percentages refer to {_inline(baseline)}. `docs/use/PYTHON.md` describes the functions."
        ),
        new_code_cell(SETUP.format(paths=paths, baseline=baseline)),
        new_markdown_cell("## In short"),
        new_code_cell(IN_SHORT),
        new_markdown_cell(
            "## Against the baseline\n\nPercent of the baseline's; `table` also has the 95 % intervals (`low`, `high`) "
            "and whether the repetitions support a difference."
        ),
        new_code_cell(PERCENTAGES),
        new_code_cell(AGAINST_BASELINE),
    ]
    for number, file in enumerate(files):
        cells += _workload(number, file)
    made = new_notebook(cells=cells)
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # nbformat's are random; the same results must give the same notebook
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def _workload(number: int, file: Results) -> list[nbformat.NotebookNode]:
    """The cells of one workload: only those that its results can fill."""
    cells = [new_markdown_cell(f"## {_inline(file.name)}"), new_code_cell(f"file = files[{number}]\nfile.labels")]
    if file.timelines():
        cells.append(new_code_cell(PROGRESS))
    if any(len(found.fullness) for found in file.memory_maps().values()):
        cells.append(new_code_cell(MAPS))
    if not file.calls().dropna(subset=["p50", "p999"]).empty:
        cells.append(new_code_cell(LATENCIES))
    return cells


def _from(folder: Path | None, path: str) -> str:
    whole = Path(path).resolve()
    return str(whole) if folder is None else os.path.relpath(whole, folder)


def _inline(text: str) -> str:
    """A name, escaped for Markdown."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|" else letter for letter in text)
