# SPDX-License-Identifier: MIT
"""Two versions of a program, by call site: known changes are found where they are, and no others."""

import pandas as pd
import pytest
from heaptape.common.home import default_home
from heaptape.features.diff import diff

from tests.support import HEAPTAPE_HERE, compile_c, published, record, succeed

PROGRAM = """
#include <stdlib.h>
#define OWN(name) \\
  __attribute__((noinline)) void *name(size_t n) { void *made = malloc(n); __asm__("" : : "r"(made)); return made; }
OWN(parse)
OWN(copy)
int main(void) {
  for (int i = 0; i < PARSED; i++) { void *one = parse(1000); if (i % 2) free(one); }
  for (int i = 0; i < 50; i++) copy(COPIED);
  return 0;
}
"""


NEVER = {"remote_objects": (0, 0)}
HELD = """
#include <pthread.h>
#include <stdlib.h>
__attribute__((noinline)) void *keep(size_t n) { void *made = malloc(n); __asm__("" : : "r"(made)); return made; }
static void *release(void *object) { free(object); return 0; }
int main(void) {
  for (int i = 0; i < 20; i++) {
    pthread_t other;
    void *one = keep(100);
    for (int k = 0; k < BETWEEN; k++) free(malloc(5000));
    if (REMOTE && i < 5) { pthread_create(&other, 0, release, one); pthread_join(other, 0); }
    else free(one);
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def tapes(tmp_path_factory):
    """parse() twice as often, copy() of half the size."""
    folder = tmp_path_factory.mktemp("diff")
    for name, settings in {"old": ("-DPARSED=100", "-DCOPIED=800"), "new": ("-DPARSED=200", "-DCOPIED=400")}.items():
        program = compile_c(folder / name, PROGRAM, "-g", "-O1", *settings)
        record(folder / f"{name}.tape", program, options=["--stacks"])
    return folder / "old.tape", folder / "new.tape"


def rows(frame: pd.DataFrame, site: str) -> dict[str, tuple[float, float]]:
    here = frame[frame["site"].str.startswith(site)]
    return {row.figure: (row.old, row.new) for row in here.itertuples()}


def test_each_change_is_at_its_call_site_and_the_whole_is_their_sum(tapes):
    frame = diff.compared(*(diff.version([str(path)], default_home()) for path in tapes))
    parsed, copied = ({site for site in frame["site"] if site.startswith(name)} for name in ("parse", "copy"))
    assert (len(parsed), len(copied)) == (1, 1)
    assert rows(frame, "parse") == {
        "objects": (100, 200),
        "bytes": (100_000, 200_000),
        "peak_bytes": (50_000, 100_000),
    } | NEVER | {"mean_age_bytes": (1000, 1000)}
    assert rows(frame, "copy") == {
        "objects": (50, 50),
        "bytes": (40_000, 20_000),
        "peak_bytes": (40_000, 20_000),
    } | NEVER | {"mean_age_bytes": (0, 0)}
    frame = frame[frame["figure"] != "mean_age_bytes"]  # which adds up to nothing
    whole = frame[frame["site"] == diff.TOTAL].set_index("figure")["change"]
    sites = frame[frame["site"] != diff.TOTAL].groupby("figure")["change"].sum()
    assert sites.to_dict() == whole.to_dict()


def test_longer_lifetimes_and_another_thread_that_frees_are_at_their_call_site(tmp_path):
    versions = []
    for name, settings in {"old": ("-DREMOTE=0", "-DBETWEEN=2"), "new": ("-DREMOTE=1", "-DBETWEEN=6")}.items():
        program = compile_c(tmp_path / name, HELD, "-g", "-O1", "-pthread", *settings)
        record(tmp_path / f"{name}.tape", program, options=["--stacks"])
        versions.append(diff.version([str(tmp_path / f"{name}.tape")], default_home()))
    frame = diff.compared(*versions)
    found = rows(frame, "keep")
    assert found["remote_objects"] == (0, 5)
    old, new = found["mean_age_bytes"]
    assert 10_000 <= old < 10_500
    assert 30_000 <= new < 31_000
    made = diff.screen(*versions, frame)
    assert "Freed by another thread: 5, was 0; +5 at keep < main." in " ".join(made.sentences)
    assert diff.OF_LIFETIMES in made.caveats


def test_the_answer_names_the_change_and_its_place_and_its_json_has_the_published_shape(tapes):
    shown = succeed(HEAPTAPE_HERE, "diff", *tapes).stdout
    assert "At the peak: +33 %; +48.8 KiB at parse < main; -19.5 KiB at copy < main." in " ".join(shown.split())
    found = published("diff", succeed(HEAPTAPE_HERE, "diff", *tapes, "--json").stdout)
    assert found["next"] == [f"heaptape blame {tapes[1]}"]
    same = succeed(HEAPTAPE_HERE, "diff", tapes[0], tapes[0]).stdout
    assert "No change beyond noise, or of 1 % or more." in same


@pytest.mark.parametrize(("stripped", "said"), [("new", "in new.tape"), ("old", "in old.tape"), ("both", ""), ("", "")])
def test_a_build_without_symbols_is_named(tapes, tmp_path, stripped, said):
    versions = []
    for tape in tapes:
        if stripped in (tape.stem, "both"):
            program = compile_c(tmp_path / "p", PROGRAM, "-s", "-O1", "-DPARSED=100", "-DCOPIED=800")
            tape = tmp_path / tape.name
            record(tape, program, options=["--stacks"])
        versions.append(diff.version([str(tape)], default_home()))
    caveats = " ".join(diff.screen(*versions, diff.compared(*versions)).caveats)
    assert ("p has no symbols" in caveats) == bool(stripped)
    assert said in caveats
    assert ("match none of the other's" in caveats) == bool(said)


def of(name: str, *recordings: int) -> diff.Version:
    """Recordings of a program with one call site, of which each requested that much."""
    sites = [pd.DataFrame([[1, n, n, 0, 0]] * 2, ["f < main", diff.TOTAL], list(diff.FIGURES)) for n in recordings]
    return diff.Version(name, sites)
