"""Converts a model that ONNX Runtime's tool quantized dynamically to a float model:

    floats.py IN.onnx OUT.onnx

MatMulInteger and the nodes around it become MatMul with float weights, and the int8 table of a Gather becomes a float
table. Many language models are published in the quantized form only. Needs python3-onnx.
"""
import sys

import numpy
import onnx
from onnx import numpy_helper


class Model:
    def __init__(self, path):
        self.proto = onnx.load(path)
        self.graph = self.proto.graph
        self.constants = {t.name: t for t in self.graph.initializer}
        self.maker = {o: n for n in self.graph.node for o in n.output}
        self.readers = {}
        for node in self.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.gone, self.made = set(), {}

    def number(self, name):
        return numpy_helper.to_array(self.constants[name])

    def widen(self, name, scale, zero):
        """Adds the dequantized constant; returns its name."""
        wide = name + "_wide"
        if wide not in self.made:
            w = self.number(name).astype(numpy.float32) - self.number(zero).astype(numpy.float32)
            self.made[wide] = numpy_helper.from_array((w * self.number(scale)).astype(numpy.float32), wide)
        return wide

    def product(self, node):
        """Replaces DynamicQuantizeLinear, MatMulInteger, Cast, Mul(scales), Mul by MatMul."""
        quantize = self.maker[node.input[0]]
        cast = self.readers[node.output[0]][0]
        last = self.readers[cast.output[0]][0]
        scales = self.maker[next(i for i in last.input if i != cast.output[0])]
        scale = next(i for i in scales.input if i in self.constants)
        weights = self.widen(node.input[1], scale, node.input[3])
        last.op_type = "MatMul"
        last.input[:] = [quantize.input[0], weights]
        self.gone |= {id(n) for n in (quantize, node, cast, scales)}

    def table(self, node):
        """Replaces Gather of int8 and DequantizeLinear by Gather of floats."""
        gather = self.maker[node.input[0]]
        gather.input[0] = self.widen(gather.input[0], node.input[1], node.input[2])
        gather.output[0] = node.output[0]
        self.gone.add(id(node))

    def save(self, path):
        for node in self.graph.node:
            if node.op_type == "MatMulInteger":
                self.product(node)
            elif node.op_type == "DequantizeLinear" and self.maker.get(node.input[0], node).op_type == "Gather":
                self.table(node)
        kept = [n for n in self.graph.node if id(n) not in self.gone]
        read = {i for n in kept for i in n.input} | {o.name for o in self.graph.output}
        constants = [t for t in list(self.constants.values()) + list(self.made.values()) if t.name in read]
        del self.graph.node[:], self.graph.initializer[:]
        self.graph.node.extend(kept)
        self.graph.initializer.extend(constants)
        onnx.save(self.proto, path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Model(sys.argv[1]).save(sys.argv[2])
