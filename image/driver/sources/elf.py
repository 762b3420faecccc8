"""Reads what is needed of 64-bit little-endian ELF files: machine, sections, needed libraries. A file that is cut off is an
error, because its section table is at its end. Parsing only: no file is opened here.
"""

import struct

X86_64, RISC_V = 62, 243
NAMES = {3: "32-bit x86", 40: "32-bit ARM", X86_64: "x86-64", 183: "arm64", RISC_V: "RISC-V"}
NOBITS = 8
DT_NEEDED = 1


class NotElf(Exception):
    """A file that is not ELF, or is cut off; the text completes 'NAME ..'."""


class Elf:
    """One file's machine and sections."""

    def __init__(self, data):
        if data[:4] != b"\x7fELF":
            raise NotElf("is not an ELF file")
        if len(data) < 64:
            raise NotElf("is cut off")
        (self.machine,) = struct.unpack_from("<H", data, 18)
        if data[4:6] != b"\x02\x01":
            raise NotElf(f"is for another processor: {NAMES.get(self.machine, self.machine)}")
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if table + size * count > len(data):
            raise NotElf(f"is cut off: {len(data)} bytes, and its section table ends at {table + size * count}")
        if size < 64 or names >= count:
            raise NotElf("has no section table")
        headers = [struct.unpack_from("<IIQQQQ", data, table + size * n) for n in range(count)]
        for _, kind, _, _, offset, length in headers:
            if kind != NOBITS and offset + length > len(data):
                raise NotElf(f"is cut off: {len(data)} bytes, and a section ends at {offset + length}")
        strings = headers[names][4]
        self.sections = {}
        for name, kind, _, _, offset, length in headers:
            end = data.find(b"\0", strings + name)
            self.sections[data[strings + name : end].decode(errors="replace")] = b"" if kind == NOBITS else data[offset : offset + length]

    @property
    def processor(self):
        return NAMES.get(self.machine, f"machine {self.machine}")

    def words(self, section):
        """The strings of a section that are not empty."""
        return [word.decode(errors="replace") for word in self.sections.get(section, b"").split(b"\0") if word]

    def modinfo(self):
        """What modinfo shows of a kernel module."""
        return dict(word.split("=", 1) for word in self.words(".modinfo") if "=" in word)

    def needed(self):
        """The libraries that the loader must find for this file."""
        strings, found = self.sections.get(".dynstr", b""), []
        dynamic = self.sections.get(".dynamic", b"")
        for at in range(0, len(dynamic) - 15, 16):
            tag, value = struct.unpack_from("<QQ", dynamic, at)
            if tag == DT_NEEDED:
                found.append(strings[value : strings.find(b"\0", value)].decode(errors="replace"))
        return found
