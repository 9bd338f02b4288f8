#!/usr/bin/python3
"""Lists the contents of the built packages and their run-time dependencies, with versions and licences.

    sbom.py PACKAGES OUT
    sbom.py --bundle BUNDLE FILE OUT    FILE is a wheel or an npm package with the contents of BUNDLE (bundle.sh)

PACKAGES is a folder of .deb files. The script writes two files into the folder OUT:

    inlay.cdx.json    a software bill of materials in CycloneDX's JSON, version 1.5
    LICENCES.md       a table of packages and licences, for people

Both list the packages of PACKAGES and, recursively, the packages that their Depends name. Versions and licences of the
latter are read from the system on which the script runs, so run it where the packages were built (deb.sh does).
Licences are those that a package's copyright file states in Debian's machine-readable form: they cover all of its
source, also parts that are not in the binary package.

Of a wheel or an npm package, FILE.cdx.json lists the libraries in it, by the packages of this system from which bundle.sh
copied them."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import uuid

# Debian's short names of licences, and SPDX's.
SPDX = {"Apache-2.0": "Apache-2.0", "Apache-2": "Apache-2.0", "Artistic": "Artistic-1.0-Perl",
        "Artistic-2": "Artistic-2.0", "BSD-2-Clause": "BSD-2-Clause", "BSD-2-clause": "BSD-2-Clause",
        "BSD-3-Clause": "BSD-3-Clause", "BSD-3-clause": "BSD-3-Clause",
        "BSL-1.0": "BSL-1.0", "CC0": "CC0-1.0", "CC0-1.0": "CC0-1.0", "Expat": "MIT", "GPL-1+": "GPL-1.0-or-later",
        "GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later", "GPL-3": "GPL-3.0-only", "GPL-3+": "GPL-3.0-or-later",
        "ISC": "ISC", "LGPL-2": "LGPL-2.0-only", "LGPL-2+": "LGPL-2.0-or-later", "LGPL-2.1": "LGPL-2.1-only",
        "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-3": "LGPL-3.0-only", "LGPL-3+": "LGPL-3.0-or-later", "MIT": "MIT",
        "MPL-2.0": "MPL-2.0", "Zlib": "Zlib", "zlib": "Zlib"}


def ask(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def paragraph(text):
    """Parses one paragraph of Debian's control format."""
    fields = {}
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            fields[name] += "\n" + line
        elif ":" in line:
            name, value = line.split(":", 1)
            fields[name] = value.strip()
    return fields


def needs(fields, known):
    """Returns the names in Depends; of alternatives, the known one or else the first."""
    for field in ("Pre-Depends", "Depends"):
        for group in filter(None, (part.strip() for part in fields.get(field, "").split(","))):
            names = [re.match(r"[a-z0-9.+-]+", part.strip()).group() for part in group.split("|")]
            yield next((name for name in names if known(name)), names[0])


def licences(package):
    """Returns the licences that the copyright file names; None if it is not machine-readable."""
    try:
        text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")
    except OSError:
        return None
    if not re.match(r"Format:.*copyright-format", text):
        return None
    names = set()
    for value in re.findall(r"^License:[ \t]*(\S.*)$", text, re.M):
        names.update(part for part in re.split(r",?\s+(?:and|or|and/or)\s+|[,\s]+(?=with)", value.strip())
                     if not part.startswith("with"))
    return sorted(name.strip(" ,()") for name in names)


class Packages:
    def __init__(self, folder):
        self.own, self.seen = {}, {}
        for file in sorted(folder.glob("*.deb")):
            fields = paragraph(ask("dpkg-deb", "-f", file))
            if not fields["Package"].endswith("-dbgsym"):
                fields["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
                self.own[fields["Package"]] = fields
        if not self.own:
            sys.exit(f"sbom.py: no .deb files in {folder}")
        for fields in self.own.values():
            self.follow(fields)

    def known(self, name):
        return name in self.own or bool(self.installed(name))

    def installed(self, name):
        text = ask("dpkg-query", "-W", "-f", "${binary:Package}\t${db:Status-Status}\n", name)
        return [line for line in text.splitlines() if line.endswith("\tinstalled")]

    def follow(self, fields):
        name = fields["Package"]
        if name in self.seen:
            return
        fields["needs"] = []
        self.seen[name] = fields
        for other in needs(fields, self.known):
            if other not in self.own:
                text = ask("dpkg-query", "-s", other) if self.installed(other) else ask(
                    "apt-cache", "show", "--no-all-versions", other)
                more = paragraph(text)
                if "Version" not in more:
                    continue # a virtual package that nothing here provides
                if self.installed(other):
                    more["licences"] = licences(other)
            else:
                more = self.own[other]
            fields["needs"].append(more["Package"])
            self.follow(more)


def reference(fields):
    return f"pkg:deb/debian/{fields['Package']}@{fields['Version']}?arch={fields['Architecture']}".replace("+", "%2B")


def component(fields, own):
    names = ["Apache-2.0"] if own else fields.get("licences") or []
    out = {"type": "library", "bom-ref": reference(fields), "name": fields["Package"], "version": fields["Version"],
           "description": fields.get("Description", "").split("\n")[0], "purl": reference(fields)}
    if names:
        out["licenses"] = [{"license": {"id": SPDX[name]} if name in SPDX else {"name": name}} for name in names]
    if own:
        out["hashes"] = [{"alg": "SHA-256", "content": fields["sha256"]}]
    return out


def head(version, when, hashed):
    """The members that every bill has; hashed: a text that differs between bills."""
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, hashed)),
            "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)),
                         "component": {"type": "application", "name": "inlay", "version": version,
                                       "bom-ref": f"inlay@{version}",
                                       "licenses": [{"license": {"id": "Apache-2.0"}}]}}}


def machine(library):
    """Returns the architecture of an ELF file, as its header states it (e_machine)."""
    with library.open("rb") as opened:
        return opened.read(20)[18:20]


def owner(library):
    """Returns the package of this system, NAME:ARCHITECTURE, from which bundle.sh copied a library; "" if there is none.
    Packages of several architectures, and of cross compilers, may have a library of this name."""
    for line in ask("dpkg-query", "-S", "*/" + library.name).splitlines():
        names, _, path = line.rpartition(": ")
        if pathlib.Path(path).is_file() and machine(pathlib.Path(path)) == machine(library):
            return names.split(", ")[0]
    return ""


def bundled(bundle, file, when):
    """The bill of a wheel or an npm package: the libraries that bundle.sh copied from packages of this system."""
    version = re.search(r"-(\d[^-]*)-", file.name).group(1)
    contents = hashlib.sha256(file.read_bytes()).hexdigest()
    out = head(version, when, file.name + contents)
    out["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": contents}]
    found = {}
    for library in sorted((bundle / "lib").glob("*.so.*")):
        if library.name.startswith("libinlay"):
            continue
        package = owner(library)
        fields = paragraph(ask("dpkg-query", "-s", package)) if package else {}
        if "Version" not in fields:
            sys.exit(f"sbom.py: no package of this system has the library {library.name}")
        fields["licences"] = licences(fields["Package"])
        found[package] = fields
    out["components"] = [component(fields, False) for _, fields in sorted(found.items())]
    out["dependencies"] = [{"ref": f"inlay@{version}", "dependsOn": [reference(fields) for _, fields in sorted(found.items())]}]
    return out


def bill(packages, when):
    first = next(iter(packages.own.values()))
    return {**head(first["Version"], when, "".join(fields["sha256"] for fields in packages.own.values())),
            "components": [component(fields, name in packages.own) for name, fields in sorted(packages.seen.items())],
            "dependencies": [{"ref": f"inlay@{first['Version']}",
                              "dependsOn": [reference(fields) for fields in packages.own.values()]}] +
                            [{"ref": reference(fields),
                              "dependsOn": [reference(packages.seen[other]) for other in sorted(set(fields["needs"]))]}
                             for _, fields in sorted(packages.seen.items())]}


def report(packages):
    lines = ["# Licences", "", "What the packages of inlay contain is under Apache-2.0. They are linked to, open or need "
             "the packages below,", "which are Debian's; licences are those that each package's copyright file names for "
             "all of its source.", "", "| package | version | licences |", "|---|---|---|"]
    for name, fields in sorted(packages.seen.items()):
        if name in packages.own:
            text = "Apache-2.0"
        elif "licences" not in fields:
            text = "not installed where this list was made"
        elif fields["licences"] is None:
            text = f"see /usr/share/doc/{name}/copyright"
        else:
            text = ", ".join(fields["licences"])
        lines.append(f"| {name} | {fields['Version']} | {text} |")
    return "\n".join(lines) + "\n"


def main():
    when = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    if len(sys.argv) == 5 and sys.argv[1] == "--bundle":
        bundle, file, out = (pathlib.Path(argument) for argument in sys.argv[2:])
        (out / (file.name + ".cdx.json")).write_text(json.dumps(bundled(bundle, file, when), indent=1) + "\n")
        return
    if len(sys.argv) != 3:
        sys.exit("usage: sbom.py PACKAGES OUT, or sbom.py --bundle BUNDLE FILE OUT")
    packages = Packages(pathlib.Path(sys.argv[1]))
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    (out / "inlay.cdx.json").write_text(json.dumps(bill(packages, when), indent=1) + "\n")
    (out / "LICENCES.md").write_text(report(packages))
    print(f"{len(packages.own)} packages, which need {len(packages.seen) - len(packages.own)} others")


main()
