# SPDX-License-Identifier: MIT
"""What a shared library says of itself: the names that it defines, and its build id."""

import struct
from pathlib import Path

# Of an ELF file for a 64-bit little-endian processor: the place, size and number of its section headers; a section's
# type, offset, size and linked section; a symbol's name and section; a note's sizes of name and content, and type.
HEADER = struct.Struct("<4sBB34xQ10xHH2x")
SECTION = struct.Struct("<4xI16xQQI20x")
SYMBOL = struct.Struct("<I2xH16x")
ELF, IS_64_BIT, IS_LITTLE_ENDIAN, DYNAMIC_SYMBOLS, UNDEFINED = b"\x7fELF", 2, 1, 11, 0
NOTES, BUILD_ID, GNU = 7, 3, b"GNU\0"
NOTE = struct.Struct("<III")


def exported_names(data: bytes) -> frozenset[str]:
    """Names of the dynamic symbols that the shared library of these bytes defines; none if it is damaged."""
    try:
        return frozenset(_names(data))
    except (struct.error, ValueError, IndexError):
        return frozenset()


def _names(data: bytes) -> list[str]:
    names = []
    sections = _sections(data)
    for kind, offset, length, linked in sections:
        if kind == DYNAMIC_SYMBOLS:
            _, text, text_bytes, _ = sections[linked]
            strings = data[text : text + text_bytes]
            for name, section in SYMBOL.iter_unpack(data[offset : offset + length]):
                if section != UNDEFINED:
                    names.append(strings[name : strings.index(b"\0", name)].decode(errors="replace"))
    return names


def build_id(library: Path) -> str:
    """In hexadecimal; empty: it has none, or can't be read."""
    try:
        data = library.read_bytes()
        notes = (data[at : at + size] for kind, at, size, _ in _sections(data) if kind == NOTES)
        return next((found for note in notes if (found := _build_id(note))), "")
    except (OSError, struct.error):
        return ""


def _build_id(notes: bytes) -> str:
    at = 0
    while at < len(notes):
        name_bytes, bytes_, kind = NOTE.unpack_from(notes, at)
        content = at + NOTE.size + (name_bytes + 3) // 4 * 4
        if kind == BUILD_ID and notes[at + NOTE.size : content] == GNU:
            return notes[content : content + bytes_].hex()
        at = content + (bytes_ + 3) // 4 * 4
    return ""


def _sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """Type, offset, size and linked section of each; none if it is not for a 64-bit little-endian processor."""
    magic, bits, order, place, size, count = HEADER.unpack_from(data)
    if (magic, bits, order, size) != (ELF, IS_64_BIT, IS_LITTLE_ENDIAN, SECTION.size):
        return []
    return [SECTION.unpack_from(data, place + index * SECTION.size) for index in range(count)]
