# SPDX-License-Identifier: MIT
"""The steps of action.yml and the job of gitlab-gate.yml, run as GitHub and GitLab run them, on allocators with planted
faults; except what builds heaptape and uploads.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from heaptape.features.gate.test.pieces import make_workload
from heaptape.features.gate.test.test_comment import Forge, forge  # noqa: F401

from tests.support import OUT, REPOSITORY

PLANTED = OUT / "test-programs" / "libplanted.so"
WORSE = f"{PLANTED}:PLANT_MAP_EVERY=10"
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
GITLAB = yaml.safe_load((REPOSITORY / "gitlab-gate.yml").read_text())[".heaptape-gate"]
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SUMMARY = "the table on the run's page"
COMMENT = "the comment in the pull request, updated in place"
NOTHING: dict[str, str] = {}


@pytest.fixture
def job(tmp_path):
    """A job's working folder; beside it the built action, and a workload."""
    (tmp_path / "action" / "tools").mkdir(parents=True)
    (tmp_path / "action" / "out").symlink_to(OUT)
    (tmp_path / "action" / ".venv" / "bin").mkdir(parents=True)
    python = f'#!/bin/sh\nPYTHONPATH={REPOSITORY / "analysis"} exec {sys.executable} "$@"\n'
    (tmp_path / "action" / ".venv" / "bin" / "python").write_text(python)
    (tmp_path / "action" / ".venv" / "bin" / "python").chmod(0o755)
    shutil.copy(REPOSITORY / "tools" / "gate-in-ci", tmp_path / "action" / "tools")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "job").mkdir()
    make_workload(tmp_path, 300).rename(tmp_path / "recordings" / "history.work")
    return tmp_path / "job"


def run_step(
    job: Path, name: str, given: Mapping[str, str] = NOTHING, **inputs: object
) -> subprocess.CompletedProcess[str]:
    """Runs one step's script, with these inputs and the defaults of other inputs."""
    step = STEPS[name]
    values = {key: str(inputs.get(key, one.get("default", ""))) for key, one in ACTION["inputs"].items()}
    said = {f"${{{{ inputs.{key} }}}}": value for key, value in values.items()}
    environment = {key: said[text] for key, text in step.get("env", {}).items() if text in said} | dict(given)
    home = job.parent
    places = {"GITHUB_ACTION_PATH": str(home / "action"), "GITHUB_STEP_SUMMARY": str(home / "summary")}
    return run_script(job, step["run"], environment | places, ["-eo", "pipefail"])


def run_script(job: Path, text: str, environment: dict, options: list[str]) -> subprocess.CompletedProcess[str]:
    home = job.parent
    script = home / "step.sh"
    script.write_text(text)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", *options, script],
        cwd=job,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def run_gate(job: Path, **inputs: object) -> subprocess.CompletedProcess[str]:
    """Runs the step of the gate, then the step that shows its table, which has to succeed in any case."""
    done = run_step(job, "heaptape gate", corpus=job.parent / "recordings", **inputs)
    assert run_step(job, SUMMARY).returncode == 0
    return done


def test_equal_builds_pass_and_the_runs_page_has_the_table(job):
    done = run_gate(job, old=PLANTED, new=PLANTED)
    assert done.returncode == 0, done.stderr
    assert (job / "heaptape-gate" / "gate.xml").stat().st_size > 0
    assert json.loads((job / "heaptape-gate" / "gate.json").read_text())["passed"]
    assert (job.parent / "summary").read_text() == (job / "heaptape-gate" / "gate.md").read_text() == done.stdout
    assert "| history |" in done.stdout


def test_a_worse_build_fails_and_leaves_the_minimised_tape_to_be_uploaded(job):
    done = run_gate(job, old=PLANTED, new=WORSE, tolerate="syscalls=10%", options="--minimise-runs 5")
    assert done.returncode == 1, done.stderr
    assert (job / "heaptape-gate" / "gate" / "history-syscalls" / "minimised.tape").is_file()
    assert "| history |" in (job.parent / "summary").read_text()
    assert Path(STEPS["figures and minimised tapes"]["with"]["path"]) == Path("heaptape-gate")


def test_inputs_are_data_and_no_script(job):
    done = run_gate(job, old=PLANTED, new="$(touch ran); touch ran", tolerate="`touch ran`")
    assert done.returncode == 2, done.stderr
    assert not list(job.glob("**/ran"))
    assert not (job.parent / "summary").exists()


@pytest.mark.parametrize(("new", "status"), [(PLANTED, 0), (WORSE, 1)])
def test_the_job_of_gitlab_fails_where_the_new_build_is_worse_and_keeps_its_reports(job, new, status):
    asked = {
        "OLD": str(PLANTED),
        "NEW": str(new),
        "CORPUS": str(job.parent / "recordings"),
        "OPTIONS": "--minimise none",
    }
    variables = GITLAB["variables"] | asked | {"HEAPTAPE": str(job.parent / "action")}
    lines = [line for line in GITLAB["script"] if not line.startswith("make ")]
    done = run_script(job, "\n".join(lines), variables, ["-e"])
    assert done.returncode == status, done.stderr
    assert "| history |" in done.stdout
    assert (job / GITLAB["artifacts"]["reports"]["junit"]).stat().st_size > 0
    assert all((job / path).is_dir() for path in GITLAB["artifacts"]["paths"])
    assert GITLAB["artifacts"]["when"] == "always"


def test_the_steps_in_order_make_one_comment_then_change_it_and_a_fork_s_job_prints_it(job, forge):  # noqa: F811
    said = []
    for new, given in ((WORSE, forge.github), (PLANTED, forge.github), (WORSE, forge.github | {"TOKEN": ""})):
        status = run_gate(job, old=PLANTED, new=new, tolerate="syscalls=10%", options="--minimise none").returncode
        assert status == (1 if new == WORSE else 0)
        done = run_step(job, COMMENT, given)
        assert done.returncode == 0, done.stderr
        said.append((len(forge.ours), "fails." in forge.ours[0], done.stdout))
    assert said[0] == (1, True, "")
    assert said[1] == (1, False, "")
    assert said[2][:2] == (1, False)
    assert said[2][2].endswith("No comment is written: there is no token, or no pull request.\n")


def test_the_job_of_gitlab_comments_where_it_has_a_token(job, forge):  # noqa: F811
    asked = {"OLD": str(PLANTED), "NEW": str(WORSE), "CORPUS": str(job.parent / "recordings"),
             "OPTIONS": "--minimise none", "HEAPTAPE": str(job.parent / "action")}  # fmt: skip
    variables = GITLAB["variables"] | asked | forge.gitlab
    run_script(job, "\n".join(line for line in GITLAB["script"] if not line.startswith("make ")), variables, ["-e"])
    text = "\n".join(GITLAB["after_script"])
    without = run_script(job, text, variables | {"TOKEN": ""}, ["-e"])
    assert without.returncode == 0, without.stderr
    assert "No comment is written" in without.stdout
    assert not forge.ours
    for _ in range(2):
        done = run_script(job, text, variables | {"HEAPTAPE_TOKEN": "secret"}, ["-e"])
        assert done.returncode == 0, done.stderr
    assert len(forge.ours) == 1
    assert "fails." in forge.ours[0]
