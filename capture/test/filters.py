# SPDX-License-Identifier: MIT
"""Filters of system calls, made by libseccomp as Docker and systemd make them, and programs under them."""

import ctypes
import errno
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import REPOSITORY, compile_c

ALLOW, KILL = 0x7FFF0000, 0x80000000
NOT_EQUAL, EQUAL, MASKED = 1, 4, 7  # libseccomp's comparisons
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000


def error(number: int = errno.EPERM) -> int:
    return 0x00050000 | number


class Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


@dataclass
class Rule:
    """For a call with arguments that compare so: (index, operator, value, value to compare with where MASKED)."""

    call: str
    action: int
    arguments: tuple[tuple[int, ...], ...] = ()


def make_filter(path: Path, otherwise: int, rules: list[Rule]) -> Path:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(otherwise)))
    for rule in rules:
        number = library.seccomp_syscall_resolve_name(rule.call.encode())
        if number < 0:  # not on this processor
            continue
        comparisons = (Comparison * max(1, len(rule.arguments)))(*(Comparison(*each) for each in rule.arguments))
        result = library.seccomp_rule_add_array(
            context, ctypes.c_uint32(rule.action), number, len(rule.arguments), comparisons
        )
        assert result == 0, (rule, result)
    with path.open("wb") as file:
        assert library.seccomp_export_bpf(context, file.fileno()) == 0
    library.seccomp_release(context)
    return path


# Of x86-64, what the profile of Docker 28 (moby/profiles, seccomp/default.json) does not list for a container without
# capabilities.
DOCKER_DENIES = """
_sysctl acct add_key afs_syscall bpf chroot clock_settime create_module delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy getpmsg init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr
move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
putpmsg query_module quotactl quotactl_fd reboot request_key security set_mempolicy set_mempolicy_home_node
setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog tuxcall umount2 unshare uselib userfaultfd
ustat vhangup vserver
"""
CLONE_NEW = 0x7E020000


def system_calls() -> dict[str, str]:
    """The numbers of all."""
    text = subprocess.run(
        ["cc", "-E", "-dM", "-x", "c", "-"],
        input="#include <sys/syscall.h>\n",
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return dict(re.findall(r"#define __NR_(\w+) (\d+)", text))


def docker(folder: Path) -> list[Path]:
    rules = [
        Rule(name, ALLOW)
        for name in system_calls()
        if name not in {*DOCKER_DENIES.split(), "clone3", "clone", "socket", "personality"}
    ]
    rules += [Rule("personality", ALLOW, ((0, EQUAL, value),)) for value in (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)]
    rules += [Rule("socket", ALLOW, ((0, EQUAL, family),)) for family in range(46) if family not in {38, 40}]
    rules += [Rule("clone3", error(errno.ENOSYS)), Rule("clone", ALLOW, ((0, MASKED, CLONE_NEW, 0),))]
    return [make_filter(folder / "docker", error(), rules)]


def systemd_group(name: str) -> set[str]:
    """What a group like @system-service means."""
    tool = shutil.which("systemd-analyze")
    if not tool:
        pytest.skip("systemd-analyze is not installed")
    words = re.sub("#.*", "", subprocess.run([tool, "syscall-filter", name], **TEXT).stdout).split()[1:]
    return {call for word in words for call in (systemd_group(word) if word[0] == "@" else {word})}


TEXT = {"capture_output": True, "text": True, "check": True}


def memcached_unit(folder: Path) -> list[Path]:
    """RestrictAddressFamilies, MemoryDenyWriteExecute, RestrictNamespaces, RestrictRealtime."""
    families = [
        Rule("socket", error(errno.EAFNOSUPPORT), ((0, EQUAL, family),))
        for family in range(46)
        if family not in {1, 2, 10}
    ]
    code = [
        Rule("mmap", error(), ((2, MASKED, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC),)),
        Rule("mprotect", error(), ((2, MASKED, PROT_EXEC, PROT_EXEC),)),
        Rule("pkey_mprotect", error(), ((2, MASKED, PROT_EXEC, PROT_EXEC),)),
        Rule("shmat", error(), ((2, MASKED, SHM_EXEC, SHM_EXEC),)),
    ]
    spaces = [Rule("clone3", error(errno.ENOSYS)), Rule("unshare", error()), Rule("setns", error())]
    spaces += [Rule("clone", error(), ((0, MASKED, 1 << bit, 1 << bit),)) for bit in range(32) if CLONE_NEW & 1 << bit]
    realtime = [Rule("sched_setscheduler", error(), ((1, EQUAL, policy),)) for policy in (1, 2, 6)]
    parts = {"families": families, "code": code, "spaces": spaces, "realtime": realtime}
    return [make_filter(folder / name, ALLOW, rules) for name, rules in parts.items()]


def redis_unit(folder: Path) -> list[Path]:
    """The same, and RestrictSUIDSGID, LockPersonality, SystemCallFilter=@system-service without @privileged and
    @resources.
    """
    modes = [
        Rule(call, error(), ((number, MASKED, bit, bit),))
        for call, number in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mknod", 1))
        for bit in (0o4000, 0o2000)
    ]
    modes += [
        Rule(call, error(), ((number, MASKED, 0o100, 0o100), (number + 1, MASKED, bit, bit)))
        for call, number in (("open", 1), ("openat", 2))
        for bit in (0o4000, 0o2000)
    ]
    service = systemd_group("@system-service") | systemd_group("@default")
    service -= systemd_group("@privileged") | systemd_group("@resources")
    return [
        *memcached_unit(folder),
        make_filter(folder / "modes", ALLOW, modes),
        make_filter(folder / "personality", ALLOW, [Rule("personality", error(), ((0, NOT_EQUAL, 0),))]),
        make_filter(folder / "service", error(), [Rule(name, ALLOW) for name in sorted(service)]),
    ]


def compile_filtered(folder: Path) -> Path:
    return compile_c(folder / "filtered", REPOSITORY / "capture/test/filtered.c")
