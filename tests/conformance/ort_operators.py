#!/usr/bin/python3
"""ONNX Runtime's operator tests (C++) as test cases of ONNX.

    ort_operators.py build CHECKOUT WORK [TEST...]
    ort_operators.py run WORK INLAY [--only TEXT] [SETTINGS...]
    ort_operators.py sum WORK

build compiles the tests of CHECKOUT (onnxruntime/test/providers/cpu and onnxruntime/test/contrib_ops of
https://github.com/microsoft/onnxruntime) against the stand-in of their class in ort_operators/, and runs them: each run
of an operator is written to WORK/out as a case. Test functions that need more of ONNX Runtime are cut out; the line of
each file says how many. Needs g++, libgtest-dev, libgmock-dev and libmsgsl-dev (DEB: a folder that they are unpacked
in). run tests the cases with each of SETTINGS (default: all) and prints what differs, apart from the cases that
ort_operators/differences.txt names with a reason; sum prints the number of cases and the SHA-256 of them."""
import argparse
import collections
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "ort_operators"
KINDS = "cases", "must_fail", "unverified"
SETTINGS = {"default": [], "reference": ["--providers", "reference", "--level", "0"], "avx2": ["--isa", "avx2"],
            "baseline": ["--isa", "baseline"],
            **{name: ["--providers", f"{name},cpu,reference", "--policy", "priority"]
               for name in ("onednn", "openblas", "vulkan")}}
# What a copy of the tests keeps of their includes; the stand-in has the rest.
KEPT = re.compile(r"(core/common/(?!safeint|logging|inlined_containers\.h|eigen)|core/framework/(int2|int4|float4)\.h|"
                  r"core/framework/tensor_shape\.|core/graph/constants\.h|core/quantization/quantization\.h|"
                  r"core/session/onnxruntime_(?!cxx)|onnxruntime_config\.h|optester\.h|"
                  r"contrib_ops/cpu/bert/attention_common\.h|test/contrib_ops/|test/providers/cpu/|test/testdata/|"
                  r"test/common/(random_generator|tensor_op_test_utils|quantization_test_utils)\.h|gtest/|gmock/|"
                  r"test/util/include/(test_random_seed|tensors_from_file)\.h)")
LOCAL = {"default_providers.h", "asserts.h"} # includes without a folder, of headers in another folder than the test
# Functions of helper headers that use ONNX Runtime's tensors.
CUT = re.compile(r"^(?:template <typename T>\nParams<T> GetTensorQuantizationParams|inline uint8_t\* TransPoseInputData|"
                 r"inline void CheckTensor|class ParallelRandomValueGenerator).*?^\};?\n", re.M | re.S)
FLAGS = ["-std=c++20", "-O0", "-w", "-fpermissive", "-fmax-errors=400", "-DDISABLE_ABSEIL", "-DUSE_CPU"]
TEST = re.compile(r"\s*(TEST|TEST_F|TEST_P|TYPED_TEST)\(")


def kept(match):
    name = match.group(1)
    return match.group(0) if KEPT.match(name) or "/" not in name and name not in LOCAL else ""


def copy(source, to):
    text = CUT.sub("", source.read_text(errors="replace"))
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(re.sub(r'^#include "([^"]*)".*$', kept, text, flags=re.M))


def prepare(checkout, work):
    """Copies what the tests include, and compiles the stand-in."""
    root = work / "source"
    base = checkout / "onnxruntime"
    for source, to in ((checkout / "include/onnxruntime/core", "core"), (base / "core/common", "core/common"),
                       (base / "core/quantization", "core/quantization"), (base / "core/framework", "core/framework"),
                       (base / "contrib_ops/cpu/bert", "contrib_ops/cpu/bert"),
                       (base / "test/common", "test/common"), (base / "test/util", "test/util"),
                       (base / "test/contrib_ops", "test/contrib_ops"), (base / "test/testdata", "test/testdata"),
                       (base / "test/providers/cpu", "test/providers/cpu")):
        for path in source.rglob("*"):
            if path.suffix in (".h", ".inc", ".inl", ".hpp") or path.name in (
                    "tensor_shape.cc", "status.cc", "attention_op_test_helper.cc", "tensors_from_file.cc"):
                copy(path, root / to / path.relative_to(source))
    (root / "onnxruntime_config.h").write_text('#pragma once\n#define ORT_VERSION "0"\n')
    shutil.copy(HERE / "optester.h", root)
    flags = [*FLAGS, f"-I{root}", *([f"-I{os.environ['DEB']}/usr/include"] if "DEB" in os.environ else [])]
    subprocess.run(["g++", *flags, "-x", "c++-header", root / "optester.h", "-o", root / "optester.h.gch"], check=True)
    objects = []
    for path in (HERE / "support.cc", root / "test/contrib_ops/attention_op_test_helper.cc",
                 root / "test/util/tensors_from_file.cc"):
        objects.append(work / (path.stem + ".o"))
        subprocess.run(["g++", *flags, "-include", "optester.h", "-c", path, "-o", objects[-1]], check=True)
    library = work / "libsupport.a"
    library.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", library, *objects], check=True)
    return flags


def blocks(lines):
    """(first, last) of the definitions at the outermost level."""
    found, i = [], 0
    while i < len(lines):
        line = lines[i]
        if not line or line[0].isspace() or line.startswith(("#", "//", "namespace", "}", "using", "/*", "*")):
            i += 1
            continue
        j = i
        if not line.rstrip().endswith(";"):
            while j < len(lines) and not lines[j].startswith("}"):
                j += 1
                if j < len(lines) and lines[j].startswith(("TEST", "namespace")):
                    j -= 1
                    break
        found.append((i, min(j, len(lines) - 1)))
        i = j + 1
    return found


def erase(lines, wrong):
    """Empties the definitions that contain wrong lines, or else these. Returns the number of tests in them."""
    tests = 0
    hit = [(a, z) for a, z in blocks(lines) if any(a <= x <= z for x in wrong)]
    for a, z in hit or [(x, x) for x in wrong]:
        for k in range(a, z + 1):
            tests += TEST.match(lines[k]) is not None
            lines[k] = lines[k] if lines[k].startswith("#") and hit else ""
    return tests


def build(source, checkout, work, flags):
    """Compiles one test file and runs it. Returns its line of the report."""
    name = str(source.relative_to(checkout / "onnxruntime"))
    copied = work / "source" / name
    copy(source, copied)
    lines = copied.read_text().split("\n")
    total, cut, program = sum(TEST.match(x) is not None for x in lines), 0, work / "program"
    for _ in range(14):
        copied.write_text("\n".join(lines))
        made = subprocess.run(["g++", *flags, "-include", "optester.h", "-c", copied, "-o", work / "test.o"],
                              capture_output=True, text=True, check=False)
        if made.returncode == 0:
            break
        here = re.escape(str(copied))
        wrong = {int(x) - 1 for x in re.findall(here + r":(\d+):\d+: (?:fatal )?error", made.stderr)}
        if not wrong or "static assertion" in made.stderr:
            wrong |= {int(x) - 1 for x in re.findall(here + r":(\d+):\d+:   required from", made.stderr)}
        if not wrong:
            return f"{name}: {(re.findall('error: .*', made.stderr) or ['?'])[0]}"
        cut += erase(lines, wrong)
    else:
        return f"{name}: does not compile"
    made = subprocess.run(["g++", work / "test.o", "-o", program, work / "libsupport.a", "-lgtest_main", "-lgtest",
                           "-lgmock", "-lpthread"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"{name}: {(re.findall('undefined reference.*', made.stderr) or [made.stderr])[0]}"
    ran = subprocess.run(["timeout", "300", program], cwd=checkout / "onnxruntime/test", capture_output=True, check=False,
                         env={**os.environ, "OUT": str(work / "out")})
    program.unlink()
    return f"{name}: {total - cut} of {total} tests" + (f", ended with {ran.returncode}" if ran.returncode > 1 else "")


def cases(work, kind):
    """The cases of a kind by tolerance, without equal ones."""
    found, seen = collections.defaultdict(list), set()
    for path in sorted((work / "out" / kind).glob("*/*/model.onnx")):
        files = [path, *sorted((path.parent / "test_data_set_0").iterdir())]
        digest = hashlib.sha256(b"".join(hashlib.sha256(x.read_bytes()).digest() for x in files)).hexdigest()
        if digest not in seen:
            seen.add(digest)
            found[path.parent.parent.name].append((path.parent, digest))
    return found


def test(folders, tolerance, inlay, flags):
    """The results of the cases, by name: (result, text)."""
    atol, rtol = tolerance.split("_")
    made = subprocess.run([inlay, "test", "--json", "--no-config", "--cache-dir=", "--memory-budget", str(4 << 30),
                           "--atol", atol, "--rtol", rtol, *flags, *folders],
                          capture_output=True, text=True, check=False)
    try:
        listed = json.loads(made.stdout)["cases"]
    except (ValueError, KeyError):
        if len(folders) == 1:
            return {folders[0].name: ("failed", f"ended with {made.returncode}: {made.stderr.strip()[-300:]}")}
        half = len(folders) // 2
        return {**test(folders[:half], tolerance, inlay, flags), **test(folders[half:], tolerance, inlay, flags)}
    return {one["name"]: (one["result"], "; ".join(one.get("problems", [one.get("reason", "")]))) for one in listed}


def known_differences():
    """Patterns of names of cases."""
    lines = (HERE / "differences.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def run(args):
    failed, known = False, known_differences()
    for setting in args.settings or SETTINGS:
        for kind in KINDS:
            counts = collections.Counter()
            for tolerance, listed in cases(args.work, kind).items():
                folders = [folder for folder, _ in listed if args.only in folder.name]
                allowed = tolerance if kind == "cases" else "1e300_0"
                for k in range(0, len(folders), 200):
                    results = test(folders[k:k + 200], allowed, args.inlay, SETTINGS[setting])
                    for name, (result, text) in results.items():
                        if kind == "must_fail": # what runs has outputs, right or wrong ones
                            ran = result == "passed" or text.startswith("test_data_set_0 output")
                            result = "failed" if ran else "passed"
                        if result == "failed" and any(fnmatch.fnmatchcase(name, pattern) for pattern in known):
                            result = "different"
                        counts[result] += 1
                        if result == "failed" or result == "skipped" and args.skipped:
                            print(f"{setting}: {kind}: {name} ({tolerance}): {result}: {text}")
            failed = failed or counts["failed"] > 0
            print(f"{setting}: {kind}: " + ", ".join(f"{counts[x]} {x}" for x in ("passed", "failed", "different", "skipped")),
                  flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("build")
    verb.add_argument("checkout", type=lambda x: pathlib.Path(x).resolve())
    verb.add_argument("work", type=lambda x: pathlib.Path(x).resolve())
    verb.add_argument("tests", nargs="*", help="parts of the files' names (default: all files)")
    verb = verbs.add_parser("run")
    verb.add_argument("work", type=pathlib.Path)
    verb.add_argument("inlay", type=pathlib.Path)
    verb.add_argument("settings", nargs="*", choices=[*SETTINGS, []])
    verb.add_argument("--only", default="", help="cases whose names contain this text")
    verb.add_argument("--skipped", action="store_true", help="print the reasons of skipped cases")
    verb = verbs.add_parser("sum")
    verb.add_argument("work", type=pathlib.Path)
    args = parser.parse_args()
    if args.verb == "run":
        return run(args)
    if args.verb == "sum":
        for kind in KINDS:
            digests = sorted(digest for listed in cases(args.work, kind).values() for _, digest in listed)
            print(f"{kind}: {len(digests)}, SHA-256 {hashlib.sha256(''.join(digests).encode()).hexdigest()}")
        return 0
    flags = prepare(args.checkout, args.work)
    base = args.checkout / "onnxruntime/test"
    for source in sorted([*base.glob("contrib_ops/*test.cc"), *base.glob("providers/cpu/*/*test*.cc")]):
        if not args.tests or any(part in str(source) for part in args.tests):
            print(build(source, args.checkout, args.work, flags), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
