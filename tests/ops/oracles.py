#!/usr/bin/env python3
"""Checks that each table of providers/operators has an oracle that does not use it (oracles.txt), which exists and covers
each operator of the table, and runs the oracles of compat/definitions.py.

    oracles.py INLAY LIST_PARTS SOURCE_DIR ONNX_DATA     LIST_PARTS: the program inlay_list_parts"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "compat"))

import numpy as np # pylint: disable=wrong-import-position
import onnx # pylint: disable=wrong-import-position

import compat # pylint: disable=wrong-import-position
import definitions # pylint: disable=wrong-import-position
import models # pylint: disable=wrong-import-position

INLAY, LIST_PARTS, SOURCE, DATA = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
LIST = SOURCE / "tests/ops/oracles.txt"


def operators_of_tables():
    """Table -> its operators. Their names do not include the domain: no table has two operators of the same name."""
    found = {stem: set() for stem in re.findall(r"^TABLE\((\w+)\)", (SOURCE / "providers/operators/tables.def").read_text(),
                                                re.M)}
    printed = subprocess.run([LIST_PARTS], capture_output=True, text=True, check=True).stdout
    for stem, operator in re.findall(r"^table operators_(\w+) (\w+)$", printed, re.M):
        if stem in found: # not the variant of an instruction set
            found[stem].add(operator)
    return found


def node_operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from node_operators(body)


def cases_of_onnx():
    """Operator -> the folder of one of ONNX's cases, if possible one of this operator alone."""
    wrong = {line.split()[0] for line in (SOURCE / "tests/conformance/wrong_data.txt").read_text().splitlines()
             if line and line[0] != "#"}
    found = {}
    for path in sorted(DATA.glob("*/*/model.onnx")):
        if path.parent.name in wrong:
            continue
        operators = set(node_operators(onnx.load(path).graph))
        for operator in operators:
            if operator not in found or len(operators) < found[operator][0]:
                found[operator] = (len(operators), path.parent)
    return {operator: folder for operator, (_, folder) in found.items()}


def read_list(text):
    """Table -> a list of pairs, the name of an oracle and the operators that it is listed for."""
    listed = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            table, _, oracles = line.partition(":")
            listed[table] = [(words[0], words[1:]) for words in (part.split() for part in oracles.split(";")) if words]
    return listed


def why_not(name, operator, oracles):
    """Why the oracle of this name does not cover the operator; None if it does."""
    if name in oracles:
        return None if operator in oracles[name] else f"{name} has no case of it"
    file, _, test = name.partition(":")
    path = SOURCE / file
    if not file.startswith("tests/") or not path.is_file():
        return f"there is no {file}"
    text = path.read_text()
    if f"cmocka_unit_test({test})" not in text or not re.search(rf"^static void {test}\(", text, re.M):
        return f"{file} has no test {test}()"
    if not re.search(rf"\b({path.name}|{path.stem.removeprefix('test_')})\b", (path.parent / "CMakeLists.txt").read_text()):
        return f"{path.parent.name}/CMakeLists.txt does not build {file}"
    return None if f'"{operator}"' in text else f"{file} does not name it"


def check(tables, listed, oracles):
    """Returns a line for each fault of the list."""
    faults = [f"oracles.txt lists {table}, which is no table" for table in listed if table not in tables]
    for table, operators in tables.items():
        named = {operator for _, words in listed.get(table, []) for operator in words}
        faults += [f"{table}: oracles.txt lists {operator}, which the table lacks" for operator in sorted(named - operators)]
        left = set(operators)
        for name, words in listed.get(table, []):
            for operator in words if words else sorted(operators - named):
                reason = why_not(name, operator, oracles)
                if reason:
                    faults.append(f"{table}: {operator}: {reason}")
                left.discard(operator)
        faults += [f"{table}: {operator} has no oracle: add a line to tests/ops/oracles.txt" for operator in sorted(left)]
        if not operators:
            faults.append(f"{table} has no operator")
    return faults


def check_planted(tables, oracles):
    """Changes of the list that the check must find."""
    text = LIST.read_text()
    for old, new, fault in (("softmax: onnx\n", "", "softmax: Softmax has no oracle"),
                            ("rotary_embedding: definitions", "rotary_embedding: onnx", "onnx has no case of it"),
                            ("tests/ops/pool.c:random_windows", "tests/ops/pool.c:random_doors", "has no test random_doors()"),
                            ("tests/ops/pool.c:random_windows", "tests/ops/puddle.c:random_windows", "there is no tests/ops/puddle"),
                            ("tests/ops/pool.c:random_windows LpPool", "tests/ops/gemm.c:test_exact LpPool", "LpPool: "),
                            ("clip: onnx", "clip: onnx\nclap: onnx", "oracles.txt lists clap")):
        if old not in text:
            yield f"oracles.txt does not contain '{old.strip()}'"
        elif not any(fault in line for line in check(tables, read_list(text.replace(old, new)), oracles)):
            yield f"'{new.strip()}' instead of '{old.strip()}' was not found"


def run_definition(case):
    """Runs a case with the table in plain C, and with that of this CPU's instruction set."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        path = compat.feed(folder, case.model, case.inputs)
        for providers in ("reference", "cpu,reference"):
            out = os.path.join(folder, providers)
            done = compat.run(INLAY, "run", path, "--inputs", os.path.join(folder, "in"), "--outputs", out, "--level", "0",
                              "--providers", providers, "--policy", "priority")
            wrong += compat.compare(out, case, providers) if done.returncode == 0 else [f"{providers}: {done.stderr.strip()}"]
        last = case.outputs[0].flat[-1]
        if not wrong: # does the comparison notice a wrong number?
            case.outputs[0] = case.outputs[0].copy()
            case.outputs[0].flat[-1] = (0 if np.isnan(last) else last + 0.001 * (1 + abs(last))
                                        if np.issubdtype(last.dtype, np.floating) else ~last)
            wrong += [] if compat.compare(out, case, "") else ["a wrong number was not found"]
    return wrong


def main():
    tables, cases = operators_of_tables(), cases_of_onnx()
    defined = list(definitions.all_cases())
    oracles = {"onnx": cases, "definitions": {case.operator for case in defined},
               "models": {node.op_type for case in models.operators() for node in case.model.graph.node}}
    listed = read_list(LIST.read_text())
    faults = check(tables, listed, oracles) + list(check_planted(tables, oracles))
    faults += [f"{case.name}: {text}" for case in defined for text in run_definition(case)]

    # The cases of ONNX that the list relies on run on the tables, and pass.
    used = sorted({str(cases[operator]) for operators in tables.values() for operator in operators & cases.keys()})
    done = compat.run(INLAY, "test", "--providers", "reference", "--level", "0", *used)
    if not done.stdout.rstrip().endswith(f"{len(used)} passed, 0 failed, 0 skipped"):
        faults.append(f"ONNX's cases: {done.stdout[-1000:]}{done.stderr}")
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{len(tables)} tables, {sum(map(len, tables.values()))} operators: {len(used)} cases of ONNX, {len(defined)} "
          f"definitions, {len(faults)} wrong")
    return 1 if faults or not tables or not defined else 0


if __name__ == "__main__":
    sys.exit(main())
