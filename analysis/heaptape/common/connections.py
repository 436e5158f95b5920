# SPDX-License-Identifier: MIT
"""What a process that talks to others over a network has to set."""

import signal
import threading


def outlive_peers() -> None:
    """A peer that has gone is an error of its connection, and not the end of this process, as SIGPIPE would make it:
    the command line leaves that signal its default. Programs that are started get the default.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
