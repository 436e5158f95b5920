# SPDX-License-Identifier: MIT
"""action.yml's steps, run as GitHub runs them, on allocators with planted faults; except the steps that build heaptape
and upload.
"""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from heaptape.features.gate.test.pieces import make_workload

from tests.support import OUT, REPOSITORY

PLANTED = OUT / "test-programs" / "libplanted.so"
WORSE = f"{PLANTED}:PLANT_MAP_EVERY=10"
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SUMMARY = "the table on the run's page"


@pytest.fixture
def job(tmp_path):
    """A job's working folder; beside it the built action, and a workload."""
    (tmp_path / "action").mkdir()
    (tmp_path / "action" / "out").symlink_to(OUT)
    (tmp_path / "recordings").mkdir()
    (tmp_path / "job").mkdir()
    make_workload(tmp_path, 300).rename(tmp_path / "recordings" / "history.work")
    return tmp_path / "job"


def run_step(job: Path, name: str, **inputs: object) -> subprocess.CompletedProcess[str]:
    """Runs one step's script, with these inputs and the defaults of other inputs."""
    step = STEPS[name]
    values = {key: str(inputs.get(key, one.get("default", ""))) for key, one in ACTION["inputs"].items()}
    said = {f"${{{{ inputs.{key} }}}}": value for key, value in values.items()}
    home = job.parent
    environment = {key: said[text] for key, text in step.get("env", {}).items()}
    environment |= {"GITHUB_ACTION_PATH": str(home / "action"), "GITHUB_STEP_SUMMARY": str(home / "summary")}
    script = home / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
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


def test_the_corpus_by_default_is_there():
    (gate,) = (step["run"] for name, step in STEPS.items() if name == "heaptape gate")
    assert '${CORPUS:-"$GITHUB_ACTION_PATH/workloads/corpus"}' in gate
    assert list((REPOSITORY / "workloads" / "corpus").glob("*.tape"))
