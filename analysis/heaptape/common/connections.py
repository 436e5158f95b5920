# SPDX-License-Identifier: MIT
"""Settings for a process that communicates over a network."""

import signal
import threading


def outlive_peers() -> None:
    """Ignores SIGPIPE, so that a lost peer is an error of its connection and does not end this process. (The command
    line leaves the signal at its default.) Programs that this process starts get the default.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
