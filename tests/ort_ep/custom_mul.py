#!/usr/bin/env python3
"""Writes a case for `inlay test` in the folder: one node Custom_Mul of domain "test", an operator that ONNX Runtime's
sample of a compiling execution provider defines, with inputs and output of float[3].
    custom_mul.py FOLDER"""
import os
import struct
import sys


def varint(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def blob(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def value(name):
    tensor = number(1, 1) + blob(2, blob(1, number(1, 3)))
    return blob(1, name) + blob(2, blob(1, tensor))


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def tensor(name, floats):
    return number(1, 3) + number(2, 1) + blob(8, name) + blob(9, struct.pack("<3f", *floats))


def main():
    folder = sys.argv[1]
    node = blob(1, "X") + blob(1, "W") + blob(2, "Y") + blob(3, "node") + blob(4, "Custom_Mul") + blob(7, "test")
    graph = blob(1, node) + blob(2, "graph") + blob(11, value("X")) + blob(11, value("W")) + blob(12, value("Y"))
    imports = blob(8, blob(1, "") + number(2, 17)) + blob(8, blob(1, "test") + number(2, 1))
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    write(folder, "model.onnx", number(1, 8) + blob(7, graph) + imports)
    write(data, "input_0.pb", tensor("X", (1, -2, 3)))
    write(data, "input_1.pb", tensor("W", (4, 5, 0.5)))
    write(data, "output_0.pb", tensor("Y", (4, -10, 1.5)))


main()
