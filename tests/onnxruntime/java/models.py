#!/usr/bin/env python3
"""Writes the resources of ONNX Runtime's Java tests that an archive of its sources lacks: squeezenet.onnx, bench.in and
bench.expected_out, with SqueezeNet 1.1's layers, random weights, and the results of NumPy."""
import sys

import numpy
import onnx
from onnx import helper, numpy_helper

FIRES = {2: (16, 64), 3: (16, 64), 4: (32, 128), 5: (32, 128), 6: (48, 192), 7: (48, 192), 8: (64, 256), 9: (64, 256)}


class Network:
    """A model, and the values of its tensors for one input."""

    def __init__(self, generator, image):
        self.generator = generator
        self.nodes = []
        self.weights = []
        self.values = {"data_0": image}

    def add(self, op, inputs, output, result, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        self.values[output] = result.astype(numpy.float32)
        return output

    def weight(self, name, value):
        self.weights.append(numpy_helper.from_array(value.astype(numpy.float32), name))
        return value.astype(numpy.float32)

    def conv(self, source, name, count, size, stride=1, pad=0):
        value = self.values[source]
        channels = value.shape[1]
        scale = (2 / (channels * size * size)) ** 0.5
        weight = self.weight(name + "_w_0", self.generator.normal(0, scale, (count, channels, size, size)))
        bias = self.weight(name + "_b_0", self.generator.normal(0, 0.1, count))
        padded = numpy.pad(value.astype(numpy.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = windows_of(padded, size, stride)
        result = numpy.einsum("nchwij,ocij->nohw", windows, weight.astype(numpy.float64), optimize=True)
        output = self.add("Conv", [source, name + "_w_0", name + "_b_0"], name, result + bias[None, :, None, None],
                          kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)
        return self.add("Relu", [output], name + "_relu", numpy.maximum(self.values[output], 0))

    def pool(self, source, name):
        result = windows_of(self.values[source], 3, 2).max(axis=(4, 5))
        return self.add("MaxPool", [source], name, result, kernel_shape=[3, 3], strides=[2, 2])

    def fire(self, source, number):
        squeezed, expanded = FIRES[number]
        name = "fire%d/" % number
        squeeze = self.conv(source, name + "squeeze1x1", squeezed, 1)
        parts = [self.conv(squeeze, name + "expand1x1", expanded, 1),
                 self.conv(squeeze, name + "expand3x3", expanded, 3, pad=1)]
        result = numpy.concatenate([self.values[part] for part in parts], axis=1)
        return self.add("Concat", parts, name + "concat", result, axis=1)


def windows_of(value, size, stride):
    windows = numpy.lib.stride_tricks.sliding_window_view(value, (size, size), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


def squeezenet(generator, image):
    network = Network(generator, image)
    name = network.pool(network.conv("data_0", "conv1", 64, 3, stride=2), "pool1")
    for number in FIRES:
        name = network.fire(name, number)
        if number in (3, 5):
            name = network.pool(name, "pool%d" % number)
    name = network.conv(name, "conv10", 1000, 1)
    name = network.add("GlobalAveragePool", [name], "pool10", network.values[name].mean(axis=(2, 3), keepdims=True))
    powers = numpy.exp(network.values[name] - network.values[name].max())
    network.add("Softmax", [name], "softmaxout_1", powers / powers.sum(), axis=1)
    return network


def write_numbers(path, name, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(name + "\n" + ",".join(repr(float(element)) for element in value.ravel()) + "\n")


def main(folder):
    generator = numpy.random.default_rng(1)
    image = generator.uniform(-1, 1, (1, 3, 224, 224)).astype(numpy.float32)
    network = squeezenet(generator, image)
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, network.values[name].shape)
             for name in ("data_0", "softmaxout_1")]
    graph = helper.make_graph(network.nodes, "squeezenet_old", ports[:1], ports[1:], network.weights)
    model = helper.make_model(graph, producer_name="onnx-caffe2", ir_version=4,
                              opset_imports=[helper.make_opsetid("", 9)], model_version=0x7FFFFFFFFFFFFFFF)
    onnx.save(model, folder + "/squeezenet.onnx")
    write_numbers(folder + "/bench.in", "data_0", image)
    write_numbers(folder + "/bench.expected_out", "softmaxout_1", network.values["softmaxout_1"])


main(sys.argv[1])
