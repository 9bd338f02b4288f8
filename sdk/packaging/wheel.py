#!/usr/bin/python3
"""Creates the wheel of a Python package with Python's standard library only.

    wheel.py OUT                 a wheel for every machine, which uses the libinlay.so.1 of the system
    wheel.py --prefix DIR OUT    a wheel with the command, the library, the probe and the plugins of an installation by
                                 `cmake --install BUILD --prefix DIR`
    wheel.py --bundle DIR OUT    the same; DIR is the output of bundle.sh for that installation
    wheel.py --onnxruntime OUT   the wheel inlay-onnxruntime: the package onnxruntime, which uses the package inlay
    wheel.py --onnxruntime --name onnxruntime OUT
                                 the same as the distribution onnxruntime, which other packages require

OUT is a folder. The same tree gives the same bytes (SOURCE_DATE_EPOCH is the time stamp of its files)."""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

BINDINGS = pathlib.Path(__file__).resolve().parent.parent / "bindings"
# Installed as `inlay` beside the interpreter, whose path replaces "python". It does not import the package, which would
# take longer than the program that it starts.
COMMAND = '''#!python
import importlib.util
import os
import sys

folder = os.path.dirname(importlib.util.find_spec("inlay").origin)
os.execv(os.path.join(folder, "bin", "inlay"), ["inlay", *sys.argv[1:]])
'''


def project(source):
    """Reads the keys of pyproject.toml that are needed here; Python 3.9 has no parser for the format."""
    text = (source / "pyproject.toml").read_text()
    keys = {key: re.search(rf'^{key} = "(.*)"$', text, re.M) for key in ("name", "version", "description",
                                                                           "requires-python")}
    missing = [key for key, found in keys.items() if found is None]
    if missing:
        sys.exit(f"wheel.py: {source}/pyproject.toml does not say {', '.join(missing)}")
    found = {key: match.group(1) for key, match in keys.items()}
    found["requires"] = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*)\]$", text, re.M).group(1))
    return found


def oldest_glibc(folder):
    """Returns the version of glibc that the files of a bundle need."""
    newest = (2, 17)
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            versions = subprocess.run(["readelf", "-V", file], capture_output=True, text=True, check=True).stdout
            for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", versions):
                newest = max(newest, (int(major), int(minor)))
            if "GLIBC_ABI_DT_RELR" in versions:
                newest = max(newest, (2, 36))
    return newest


def machine(library):
    """Returns the name of the architecture for which a shared library was built, as wheels write it."""
    names = {62: "x86_64", 183: "aarch64"} # e_machine of ELF
    with library.open("rb") as file:
        number = int.from_bytes(file.read(20)[18:20], "little")
    return names.get(number) or sys.exit(f"wheel.py: {library} is for a machine (ELF {number}) that wheels have no name for")


def contents(source, package, bundle):
    """Yields pairs of a name in the wheel and a file."""
    for file in sorted((source / package).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and "lib" not in file.relative_to(source).parts:
            yield str(file.relative_to(source)), file
    if bundle is not None:
        for file in sorted(bundle.rglob("*")):
            if file.is_file():
                yield "inlay/" + str(file.relative_to(bundle)), file


def main():
    parser = argparse.ArgumentParser(description="Makes the wheel of the Python package.")
    contained = parser.add_mutually_exclusive_group()
    contained.add_argument("--prefix", type=pathlib.Path, metavar="DIR", help="an installation")
    contained.add_argument("--bundle", type=pathlib.Path, metavar="DIR", help="what bundle.sh made")
    parser.add_argument("--onnxruntime", action="store_true", help="the package onnxruntime instead of inlay")
    parser.add_argument("--name", help="with --onnxruntime: the name of the distribution")
    parser.add_argument("out", type=pathlib.Path, help="folder to write to")
    arguments = parser.parse_args()
    if arguments.bundle is not None and not (arguments.bundle / "lib" / "libinlay.so.1").is_file():
        sys.exit(f"wheel.py: {arguments.bundle} has no lib/libinlay.so.1; make it with bundle.sh")
    if arguments.onnxruntime and (arguments.bundle or arguments.prefix) is not None:
        sys.exit("wheel.py: --onnxruntime excludes --prefix and --bundle: the library belongs to the wheel of inlay")
    if arguments.name is not None and not arguments.onnxruntime:
        sys.exit("wheel.py: --name belongs to --onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.prefix is not None:
            arguments.bundle = pathlib.Path(folder)
            made = subprocess.run([pathlib.Path(__file__).resolve().parent / "bundle.sh", arguments.prefix, folder])
            if made.returncode != 0:
                sys.exit(made.returncode)
        print(write(arguments))


def write(arguments):
    """Writes the wheel and returns its path."""
    package, source = ("onnxruntime", "python-onnxruntime") if arguments.onnxruntime else ("inlay", "python")
    source = BINDINGS / source
    about = project(source)
    about["name"] = arguments.name or about["name"]
    tag = "py3-none-any"
    if arguments.bundle is not None:
        tag = "py3-none-manylinux_{}_{}_{}".format(*oldest_glibc(arguments.bundle), machine(arguments.bundle / "lib" / "libinlay.so.1"))
    stem = f"{about['name'].replace('-', '_')}-{about['version']}"
    metadata = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}",
                f"Summary: {about['description']}", "License: Apache-2.0",
                f"Requires-Python: {about['requires-python']}", "Description-Content-Type: text/markdown",
                *(f"Requires-Dist: {name}" for name in about["requires"]), "", (source / "README.md").read_text()]
    wheel = ["Wheel-Version: 1.0", "Generator: inlay", f"Root-Is-Purelib: {str(arguments.bundle is None).lower()}",
             f"Tag: {tag}", ""]
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{stem}-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data, mode=0o644):
            info = zipfile.ZipInfo(name, when)
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")

        for name, file in contents(source, package, arguments.bundle):
            add(name, file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)
        if arguments.bundle is not None:
            add(f"{stem}.data/scripts/inlay", COMMAND.encode(), 0o755)
        add(f"{stem}.dist-info/LICENSE", (BINDINGS.parent.parent / "LICENSE").read_bytes())
        add(f"{stem}.dist-info/METADATA", "\n".join(metadata).encode())
        add(f"{stem}.dist-info/WHEEL", "\n".join(wheel).encode())
        name = f"{stem}.dist-info/RECORD"
        archive.writestr(zipfile.ZipInfo(name, when), "\n".join([*record, f"{name},,", ""]))
    return path


main()
