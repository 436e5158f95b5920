# SPDX-License-Identifier: MIT
"""Planted crates and registries: small allocators over the C library's own, packed as crates.io packs them."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

ALLOCATOR = r"""
#include <stddef.h>
void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_memalign(size_t, size_t);
void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *at) { __libc_free(at); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *at, size_t size) { return __libc_realloc(at, size); }
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void *valloc(size_t size) { return __libc_memalign(4096, size); }
void *pvalloc(size_t size) { return __libc_memalign(4096, (size + 4095) & ~(size_t)4095); }
int posix_memalign(void **at, size_t alignment, size_t size) { return !(*at = __libc_memalign(alignment, size)); }
#ifdef BREAKS_ALIGNMENT
void *aligned_alloc(size_t alignment, size_t size) { (void)alignment; return __libc_malloc(size); }
#else
void *aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
#endif
"""
BUILD = "$CC $FLAGS -fno-builtin -shared -fPIC -Wl,--build-id -o libplanted.so planted.c"
RECIPE = """
[planted]
registry = "crates.io"
package = "planted-sys"
licence = "MIT"
folder = "c"
tools = ["cc"]
flags = "-O1"
build = "{build}"
library = "libplanted.so"
[planted.versions]
"1.0.0" = {{ release = "0.1.0+1" }}
"1.2.0" = {{ release = "0.1.1" }}
"2.0.0" = {{ release = "0.2.0", note = "the newest" }}
"2.1.0" = {{ release = "0.9.9" }}
"""


def archive(members: dict[str, str | tarfile.TarInfo]) -> bytes:
    """A compressed tar archive of files by name, or of given members."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            tar.addfile(info, io.BytesIO(content.encode()))
    return data.getvalue()


def crate(release: str, source: str = ALLOCATOR) -> bytes:
    """planted-sys with this release and an allocator in C."""
    top = f"planted-sys-{release}"
    return archive({f"{top}/Cargo.toml": "[package]\n", f"{top}/c/planted.c": source})


def registry(folder: Path, releases: dict[str, bytes]) -> Path:
    """A local registry in cargo's format: the archives, and the index beside them."""
    index = folder / "index" / "pl" / "an" / "planted-sys"
    index.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for release, data in releases.items():
        (folder / f"planted-sys-{release}.crate").write_bytes(data)
        lines.append(
            json.dumps({"name": "planted-sys", "vers": release, "cksum": hashlib.sha256(data).hexdigest()}) + "\n"
        )
    index.write_text("".join(lines))
    return folder
