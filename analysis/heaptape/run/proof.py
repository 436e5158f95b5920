# SPDX-License-Identifier: MIT
"""What proves that a library is the allocator whose name it has: other allocators' libraries have the same file names
(gperftools' libtcmalloc.so and Google's).
"""

import struct
from pathlib import Path

import msgspec

# Of an ELF file for a 64-bit little-endian processor: the place, size and number of its section headers; a section's
# type, offset, size and linked section; a symbol's name and section.
HEADER = struct.Struct("<4sBB34xQ10xHH2x")
SECTION = struct.Struct("<4xI16xQQI20x")
SYMBOL = struct.Struct("<I2xH16x")
ELF, IS_64_BIT, IS_LITTLE_ENDIAN, DYNAMIC_SYMBOLS, UNDEFINED = b"\x7fELF", 2, 1, 11, 0


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`exports`: symbols that only that allocator defines for others; `contains`: text in it; `lacks`: symbols that it
    does not export, but a library with the same name does.
    """

    exports: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def holds(self, library: Path) -> bool:
        """False also if the file can't be read or is no shared library."""
        try:
            data = library.read_bytes()
        except OSError:
            return False
        names = exported_names(data)
        return (
            "malloc" in names
            and names.issuperset(self.exports)
            and names.isdisjoint(self.lacks)
            and all(text.encode() in data for text in self.contains)
        )


def exported_names(data: bytes) -> frozenset[str]:
    """Names of the dynamic symbols that the shared library of these bytes defines; none if it is damaged."""
    try:
        return frozenset(_names(data))
    except (struct.error, ValueError, IndexError):
        return frozenset()


def _names(data: bytes) -> list[str]:
    magic, bits, order, place, size, count = HEADER.unpack_from(data)
    if (magic, bits, order, size) != (ELF, IS_64_BIT, IS_LITTLE_ENDIAN, SECTION.size):
        return []
    sections = [SECTION.unpack_from(data, place + index * SECTION.size) for index in range(count)]
    names = []
    for kind, offset, length, linked in sections:
        if kind == DYNAMIC_SYMBOLS:
            _, text, text_bytes, _ = sections[linked]
            strings = data[text : text + text_bytes]
            for name, section in SYMBOL.iter_unpack(data[offset : offset + length]):
                if section != UNDEFINED:
                    names.append(strings[name : strings.index(b"\0", name)].decode(errors="replace"))
    return names
