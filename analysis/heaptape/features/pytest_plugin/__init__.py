# SPDX-License-Identifier: MIT
"""`pytest --heaptape`: what each test acquires, from a recording of the run, and limits for it (docs/use/PYTEST.md)."""

# How parent and recorded run communicate, apart from the command line.
# In the environment: the folder that both share, and the descriptor that is the user's standard error, as 2 is the
# recorder's.
RECORDED = "HEAPTAPE_PYTEST"
STANDARD_ERROR = "HEAPTAPE_PYTEST_STDERR"

# In that folder: the recorder's output; a file that the controller of xdist creates when a worker crashed.
RECORDER_SAYS = "recorder"
CRASHED = "crashed"
