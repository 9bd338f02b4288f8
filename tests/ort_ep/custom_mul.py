#!/usr/bin/env python3
"""Writes a case for `inlay test` in the folder: one node Custom_Mul of domain "test", an operator that ONNX Runtime's
sample of a compiling execution provider defines, with inputs and output of float[3].
    custom_mul.py FOLDER"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_fields import block, number, value  # noqa: E402


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def tensor(name, floats):
    return number(1, 3) + number(2, 1) + block(8, name) + block(9, struct.pack("<3f", *floats))


def main():
    folder = sys.argv[1]
    node = block(1, "X") + block(1, "W") + block(2, "Y") + block(3, "node") + block(4, "Custom_Mul") + block(7, "test")
    graph = block(1, node) + block(2, "graph") + block(11, value("X", [3])) + block(11, value("W", [3])) + block(12, value("Y", [3]))
    imports = block(8, block(1, "") + number(2, 17)) + block(8, block(1, "test") + number(2, 1))
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    write(folder, "model.onnx", number(1, 8) + block(7, graph) + imports)
    write(data, "input_0.pb", tensor("X", (1, -2, 3)))
    write(data, "input_1.pb", tensor("W", (4, 5, 0.5)))
    write(data, "output_0.pb", tensor("Y", (4, -10, 1.5)))


main()
