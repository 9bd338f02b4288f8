#!/usr/bin/python3
"""Lets the files of a bundle run with an older glibc than that of the system that built them.

    older_libc.py SHIM FILE...     SHIM: older_libc.c as a shared library; prints the files that now need it

A symbol that a file takes from a version of glibc newer than 2.28 loses its version if an older glibc has it as well
(most only moved into libc.so.6) or SHIM has it: the loader then binds what the system has. A version that no symbol
needs any more gets the name of an older one. All other versions stay, so that the loader refuses a system without
them."""
import re
import struct
import subprocess
import sys

OLDEST = (2, 28)
BASE = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
LIBRARIES = ("libc.so.6", "libm.so.6")


def number(version):
    """Returns the number of a version of glibc; None for other versions, GLIBC_PRIVATE and GLIBC_ABI_DT_RELR."""
    found = BASE.fullmatch(version)
    return (int(found.group(1)), int(found.group(2))) if found else None


def exports(path):
    """Yields the name and version of each symbol that a shared library defines."""
    listing = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        fields = line.split("\t")
        if len(fields) == 2 and "*UND*" not in fields[0]:
            words = fields[1].split()
            yield words[-1], words[1].strip("()") if len(words) > 2 else ""


def had_before(shim):
    """Returns the names of the symbols that need no version."""
    names = {name for name, _ in exports(shim)}
    for library in LIBRARIES:
        path = subprocess.run(["cc", "-print-file-name=" + library], capture_output=True, text=True, check=True).stdout
        names |= {name for name, version in exports(path.strip()) if number(version) and number(version) <= OLDEST}
    return names


def rewrite(path, known):
    """Changes the symbol versions of a file; returns whether there was anything to change."""
    data = bytearray(open(path, "rb").read())
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"older_libc.py: {path} is not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry_bytes) for i in range(count)]

    def text(offset):
        return data[offset:data.index(0, offset)].decode()

    sections = {text(headers[names_index][4] + header[0]): header for header in headers}
    if ".gnu.version_r" not in sections:
        return False
    strings = sections[".dynstr"][4]
    versions = {} # index: offset of its Vernaux
    need = sections[".gnu.version_r"][4]
    while True:
        _, auxiliaries, _, first, following = struct.unpack_from("<HHIII", data, need)
        auxiliary = need + first
        for _ in range(auxiliaries):
            _, _, index, _, step = struct.unpack_from("<IHHII", data, auxiliary)
            versions[index] = auxiliary
            auxiliary += step
        if following == 0:
            break
        need += following

    def version_of(index):
        return text(strings + struct.unpack_from("<I", data, versions[index] + 8)[0])

    newer = {index for index in versions if (number(version_of(index)) or OLDEST) > OLDEST}
    if not newer:
        return False
    older = min((index for index in versions if number(version_of(index))), key=lambda index: number(version_of(index)))
    kept = {older}
    symbols = sections[".dynsym"]
    for i in range(symbols[5] // 24):
        place = sections[".gnu.version"][4] + 2 * i
        index = struct.unpack_from("<H", data, place)[0] & 0x7FFF
        if index in newer:
            if text(strings + struct.unpack_from("<I", data, symbols[4] + 24 * i)[0]) in known:
                struct.pack_into("<H", data, place, 1)
            else:
                kept.add(index)
    older_hash, = struct.unpack_from("<I", data, versions[older])
    older_name, = struct.unpack_from("<I", data, versions[older] + 8)
    for index in newer - kept:
        struct.pack_into("<I", data, versions[index], older_hash)
        struct.pack_into("<I", data, versions[index] + 8, older_name)
    with open(path, "r+b") as file:
        file.write(data)
    return True


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: older_libc.py SHIM FILE...")
    known = had_before(sys.argv[1])
    for path in sys.argv[2:]:
        if rewrite(path, known):
            print(path)


main()
