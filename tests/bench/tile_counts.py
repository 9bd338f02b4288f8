#!/usr/bin/env python3
"""Counts what the shaders of GPUs do for a chunk of k, in SPIR-V that spirv-opt has specialised and unrolled: the
instructions of one invocation (tiles.comp) or subgroup (matrices.comp) between the two barriers of the loop. The tilings
are those of providers/vulkan/tiles.c. Prints the table of gpu.md.

    tile_counts.py          needs glslangValidator and spirv-tools"""
import pathlib
import re
import subprocess
import tempfile

VULKAN = pathlib.Path(__file__).resolve().parents[2] / "providers" / "vulkan"
OWN = 31  # ID_OWN of shaders/opcodes.h
SIZE, SUBGROUP = 16, 32  # of matrices.comp: square results of 16 x 16, subgroups of 32
UNROLL = ("--set-spec-const-default-value {} --freeze-spec-const --fold-spec-const-op-composite --merge-return "
          "--inline-entry-points-exhaustive --merge-return --private-to-local --ssa-rewrite --ccp "
          "--eliminate-dead-branches --loop-unroll --scalar-replacement=0 --ssa-rewrite --ccp --loop-unroll --ccp "
          "--eliminate-dead-branches --simplify-instructions --redundancy-elimination --eliminate-dead-code-aggressive "
          "--merge-blocks")


def tilings(name):
    """The rows of a list in tiles.c: rows, columns, side_rows, side_columns, slices, steps, ahead."""
    source = (VULKAN / "tiles.c").read_text()
    rows = re.search(rf"static const vulkan_tiling {name}\[\] = {{(.*?)}};", source, re.S).group(1)
    return [[int(n) for n in row.split(",")[:7]] for row in re.findall(r"{([^}]*)}", rows)]


def disassembled(shader, constants, defines=()):
    with tempfile.TemporaryDirectory() as folder:
        module = f"{folder}/module.spv"
        subprocess.run(["glslangValidator", "--quiet", f"-I{VULKAN / 'shaders'}", *defines, "--target-env", "vulkan1.2", "-o",
                        module, str(VULKAN / "shaders" / shader)], check=True)
        values = " ".join(f"{OWN + i}:{value}" for i, value in enumerate(constants))
        options = [values if part == "{}" else part for part in UNROLL.split()]
        subprocess.run(["spirv-opt", "--target-env=vulkan1.2", *options, module, "-o", module], check=True)
        return subprocess.run(["spirv-dis", module], check=True, capture_output=True, text=True).stdout


def count(text):
    """The products, and the loads from shared memory, between the first two barriers."""
    shared = set(re.findall(r"(%\S+) = Op(?:InBounds)?AccessChain %_ptr_Workgroup_", text))
    body = re.split(r"^.*OpControlBarrier.*$", text, flags=re.M)[1]
    products = len(re.findall(r" Fma | OpSDot |OpCooperativeMatrixMulAddNV", body))
    loads = re.findall(r" = Op(?:Load|CooperativeMatrixLoadNV) %\S+ (%\S+)", body)
    return products, sum(pointer in shared for pointer in loads)


def row(shader, tiling, size, subgroup, constants, defines=(), depth=1):
    rows, columns, side_rows, side_columns, slices, steps, ahead = tiling
    constants = [rows, columns, side_rows, 0, *constants, side_columns, slices, steps, depth, ahead]
    products, loads = count(disassembled(shader, constants, defines))
    if products != rows * columns * steps:
        raise SystemExit(f"tile_counts.py: {shader} {tiling}: {products} products; spirv-opt has not unrolled the loops")
    return (f"| `{' '.join([shader, *defines])}` | {rows * side_rows * size} x {columns * side_columns * size} "
            f"| {side_rows * side_columns * slices * subgroup} | {steps * slices * depth} | {ahead} | {products} | {loads} "
            f"| {products / loads:.1f} |")


def main():
    print("| shader | tile | threads | k of a chunk | chunks ahead | products | loads from shared memory | products a load |")
    print("|-|-|-|-|-|-|-|-|")
    shared = [tiling for tiling in tilings("tiles") if tiling[6] > 0] # the others have no loop with barriers
    for tiling in shared:
        print(row("tiles.comp", tiling, 1, 1, [4, 4]))
    for tiling in shared:
        print(row("tiles.comp", tiling, 1, 1, [1, 1], ["-DBYTES", "-DDOT"], 4))
    for tiling in tilings("matrices"):
        print(row("matrices.comp", tiling, SIZE, SUBGROUP, [SIZE, SUBGROUP], depth=SIZE))
    for tiling in tilings("matrices"):
        print(row("matrices.comp", tiling, SIZE, SUBGROUP, [SIZE, SUBGROUP], ["-DBYTES"], 2 * SIZE))


main()
