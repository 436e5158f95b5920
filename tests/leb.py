# SPDX-License-Identifier: MIT
"""LEB128 and zigzag numbers for tests, independent of heaptape's own code in C and in analysis/."""


def leb(value: int) -> bytes:
    """7 bits per byte, least significant first, the highest bit set in all bytes except the last."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> int:
    """64 bits with the sign in the lowest bit."""
    return (value << 1 ^ value >> 63) & (1 << 64) - 1


def unzigzag(value: int) -> int:
    """Undoes `zigzag`."""
    return value >> 1 ^ -(value & 1)


class Reader:
    """Numbers from bytes, one after the other. `at`: where the next begins."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def more(self) -> bool:
        return self.at < len(self.data)

    def leb(self) -> int:
        """The next number. Raises IndexError at the end of the bytes."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        """The next number, decoded from `zigzag`."""
        return unzigzag(self.leb())

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        self.at += count
        return self.data[self.at - count : self.at]
