# SPDX-License-Identifier: MIT
"""Refreshes the generated parts of the documents: `make golden`.

core/trace/annotated_example.txt from a trace of five lines; README.md's answer from the demo's results, if any.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

EXAMPLE = """\
# heaptape-text 1 clock=nanoseconds
100 0 malloc(24) = 0x5000
200 0 free(0x5000)
300 0 calloc(3, 8) = 0x5000
450 0 realloc(0x5000, 5000) = 0x7000
500 0 free(0x9000)
"""
BLOCK_NAMES = {1: "INFO", 2: "EVENTS", 3: "SAMPLES", 4: "GAP", 15: "FOOTER"}
COLUMN_NAMES = {
    1: "call", 2: "size", 3: "param", 4: "release distance", 6: "release address", 7: "acquire hit",
    8: "acquire address", 9: "stamp gap", 10: "stamp delta", 11: "touched",
}  # fmt: skip


def replace_between(path: Path, name: str, text: str) -> None:
    """Puts text between <!-- name:begin --> and <!-- name:end -->."""
    pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    path.write_text(pattern.sub(lambda match: match[1] + text + match[2], path.read_text()))


def hexdump(data: bytes) -> str:
    """Space-separated bytes, shortened in the middle when they are many."""
    shown = data if len(data) <= 20 else data[:12]
    return shown.hex(" ") + (f" … ({len(data)} bytes)" if len(data) > 20 else "")


def annotate_block(data: bytes, offset: int) -> tuple[list[str], int]:
    """Lines for the block at offset, and where the next one starts."""
    kind, flags, columns, payload, thread, rows, steps, first, last, sequence = struct.unpack_from(
        "<BBHIIIIQQI", data, offset + 4
    )
    lines = [
        f"{offset:4x}  {data[offset : offset + 4].hex(' ')}  block magic HTBK",
        f"{offset + 4:4x}  {data[offset + 4 : offset + 12].hex(' ')}  {BLOCK_NAMES[kind]}, "
        f"{'critical' if flags & 1 else 'not critical'}, {columns} columns, payload of {payload} bytes",
        f"{offset + 12:4x}  {data[offset + 12 : offset + 24].hex(' ')}  thread {thread}, {rows} rows, {steps} steps",
        f"{offset + 24:4x}  {data[offset + 24 : offset + 40].hex(' ')}  first stamp {first}, last stamp {last}",
        f"{offset + 40:4x}  {data[offset + 40 : offset + 48].hex(' ')}  block {sequence} of its thread, CRC-32",
    ]
    directory, at = offset + 48, offset + 48 + 16 * columns
    for index in range(columns):
        place = directory + 16 * index
        column, encoding, shift, column_flags, raw, stored, _ = struct.unpack_from("<BBBBIII", data, place)
        name = COLUMN_NAMES.get(column, "") if kind == 2 else {1: "JSON", 2: "index"}.get(column, "")
        lines.append(
            f"{place:4x}  {data[place : place + 16].hex(' ')}  column {column} ({name}): "
            f"{raw} bytes in a frame of {stored}" + (f", shift {shift}" if shift else "")
        )
    for index in range(columns):
        column, _, _, _, raw, stored, _ = struct.unpack_from("<BBBBIII", data, directory + 16 * index)
        content = zstandard.ZstdDecompressor().decompress(data[at : at + stored])
        meaning = content.decode() if kind != 2 and column == 1 else content.hex(" ")
        lines.append(f"{at:4x}  {hexdump(data[at : at + stored])}  column {column}: {meaning}")
        at += stored
    return lines, offset + 48 + payload


def annotated_trace(heaptape: Path) -> str:
    """The example, then every byte of its trace."""
    with tempfile.TemporaryDirectory() as folder:
        text, tape = Path(folder) / "example.txt", Path(folder) / "example.tape"
        text.write_text(EXAMPLE)
        subprocess.run([heaptape, "convert", text, tape], stderr=subprocess.DEVNULL)  # 1: 0x9000 was never seen
        data = tape.read_bytes()
    lines = [
        f"{0:4x}  {data[:8].hex(' ')}  magic HEAPTAPE",
        f"{8:4x}  {data[8:16].hex(' ')}  version 1, flags 0, CRC-32",
    ]
    offset = 16
    while offset < len(data) - 16:
        more, offset = annotate_block(data, offset)
        lines += ["", *more]
    lines += ["", f"{offset:4x}  {data[offset:].hex(' ')}  footer's offset, magic HEAPTEND"]
    return f"{EXAMPLE}\n" + "\n".join(lines) + "\n"


def demo_section(heaptape: Path, demo: Path) -> str:
    """README's example: the demo's answer for redis."""
    recorded = json.loads(subprocess.check_output([heaptape, "info", "--json", demo / "redis.tape"]))
    answer = subprocess.check_output([heaptape, "compare", demo / "redis.json"], text=True)
    return (
        f"The demo's redis server, recorded at {recorded['bytes_per_event']:.2f} bytes per call "
        f"(`heaptape compare {demo / 'redis.json'}`):\n\n```\n{answer.strip()}\n```\n"
    )


def main(out: Path) -> None:
    """Refreshes everything that this build can refresh."""
    heaptape = (out / "bin" / "heaptape").resolve()
    Path("core/trace/annotated_example.txt").write_text(annotated_trace(heaptape))
    if (out / "demo" / "redis.json").exists():
        replace_between(Path("README.md"), "demo", demo_section(heaptape, out / "demo"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
