# SPDX-License-Identifier: MIT
"""What parent and recorded run tell each other, beside the command line."""

# In the environment: the folder that both share, and the descriptor that is the user's standard error, as 2 is the
# recorder's.
RECORDED = "HEAPTAPE_PYTEST"
STANDARD_ERROR = "HEAPTAPE_PYTEST_STDERR"

# In that folder: what the recorder said; a file that the controller of xdist leaves where a worker crashed.
RECORDER_SAYS = "recorder"
CRASHED = "crashed"
