"""The rows of commits.py: layers, networks, and sessions that are opened."""
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


class Row:
    """name: for display and globs; write(path) writes the model. timed: the measured time, of a run of the whole model
    ("run"), the opening of its session ("create"), or an operator in it (its name). threads: of each run."""

    def __init__(self, name, write, timed="run", threads=1):
        self.name, self.write, self.timed, self.threads = name, write, timed, threads


class Network:
    """A graph with one input `x` that is written node by node; weights are random, outputs of nodes are numbered."""

    def __init__(self, dims, element=T.FLOAT):
        self.random, self.nodes, self.constants = np.random.default_rng(0), [], []
        self.input = helper.make_tensor_value_info("x", element, dims)

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *dims):
        scale = (2 / max(1, int(np.prod(dims[1:])))) ** 0.5
        return self.constant((self.random.standard_normal(dims) * scale).astype(np.float32))

    def add(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def conv(self, value, inner, outer, side=1, stride=1, group=1):
        """A convolution with a bias, padded to the size of its input."""
        return self.add("Conv", value, self.weights(outer, inner // group, side, side), self.weights(outer),
                        strides=[stride] * 2, pads=[side // 2] * 4, group=group)

    def write(self, value, path):
        graph = helper.make_graph(self.nodes, "row", [self.input],
                                  [helper.make_tensor_value_info(value, T.FLOAT, None)], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        onnx.save(made, path)


# ----------------------------------------------------------------- layers
def pool(op, size, between, **attributes):
    """A pool alone or between two convolutions, whose layout it then has."""
    channels, side = size
    outer = 16 if between else channels

    def write(path):
        network = Network([1, outer, side, side])
        value = network.conv("x", outer, channels) if between else "x"
        value = network.add(op, value, **attributes)
        network.write(network.conv(value, channels, outer) if between else value, path)

    what = "x".join(map(str, attributes.get("kernel_shape", ())))
    what += f" stride {attributes['strides'][0]}" if "strides" in attributes else ""
    what += " padded" if "pads" in attributes else ""
    name = " ".join(filter(None, [op, what, f"{channels}x{side}", "in a region" if between else ""]))
    return Row(name, write, op if between else "run")


def pools():
    windows = (((64, 112), {"kernel_shape": [3, 3], "strides": [2, 2]}),
               ((64, 56), {"kernel_shape": [2, 2], "strides": [2, 2]}),
               ((192, 35), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
               ((256, 8), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
               ((64, 14), {"kernel_shape": [7, 7]}))
    for between in (False, True):
        for op in ("AveragePool", "MaxPool"):
            for size, attributes in windows:
                yield pool(op, size, between, **attributes)
        for op in ("GlobalAveragePool", "GlobalMaxPool"):
            yield pool(op, (256, 14), between)


def grouped():
    """The 3x3 convolutions of ResNeXt-50, with 4 to 32 channels in a group, and their activations."""
    for channels, side in ((128, 56), (256, 28), (512, 14), (1024, 7)):
        def write(path, channels=channels, side=side):
            network = Network([1, channels, side, side])
            network.write(network.add("Relu", network.conv("x", channels, channels, 3, group=32)), path)

        yield Row(f"32 groups of 3x3 {channels}x{side}", write)


# ----------------------------------------------------------------- networks
def excited(network, value, channels, activation):
    """Scales channels by two products of their means, as in squeeze-and-excitation; activation: of the inner one."""
    inner = max(8, channels // 4)
    mean = network.add("Flatten", network.add("GlobalAveragePool", value))
    mean = network.add("Gemm", mean, network.weights(inner, channels), network.weights(inner), transB=1)
    mean = network.add("Gemm", activation(mean), network.weights(channels, inner), network.weights(channels), transB=1)
    shape = network.constant(np.array([0, channels, 1, 1], np.int64))
    return network.add("Mul", value, network.add("Reshape", network.add("Sigmoid", mean), shape))


def small_network(path):
    """14 convolutions, 10 pools and 18 products, less than a millisecond."""
    network, channels = Network([1, 3, 96, 96]), 32

    def relu(value):
        return network.add("Relu", value)

    value = relu(network.conv("x", 3, channels, 3, 2))
    value = network.add("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        value = relu(network.conv(value, channels, channels, 3))
    for outer, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (128, 2), (128, 1), (128, 1), (128, 1)):
        value = excited(network, relu(network.conv(value, channels, outer, 3, stride)), outer, relu)
        channels = outer
    network.write(relu(network.conv(relu(network.conv(value, 128, 128)), 128, 64)), path)


def grouped_network(path):
    """The first blocks of the second stage of ResNeXt-50."""
    network, channels = Network([1, 256, 28, 28]), 256
    value = "x"
    for _ in range(3):
        inner = network.add("Relu", network.conv(value, channels, 256))
        inner = network.add("Relu", network.conv(inner, 256, 256, 3, group=32))
        other = value if channels == 512 else network.conv(value, channels, 512)
        value = network.add("Relu", network.add("Add", network.conv(inner, 256, 512), other))
        channels = 512
    network.write(value, path)


def scaled_network(path):
    """Blocks of EfficientNet."""
    network, channels = Network([1, 3, 224, 224]), 32

    def swish(value):
        return network.add("Mul", value, network.add("Sigmoid", value))

    value = swish(network.conv("x", 3, channels, 3, 2))
    for outer, side, stride, count in ((16, 3, 1, 1), (24, 3, 2, 2), (40, 5, 2, 2), (80, 3, 2, 3), (112, 5, 1, 3),
                                       (192, 5, 2, 4), (320, 3, 1, 1)):
        for i in range(count):
            wide = channels * (6 if channels > 32 or outer > 16 else 1)
            inner = swish(network.conv(value, channels, wide)) if wide > channels else value
            inner = swish(network.conv(inner, wide, wide, side, stride if i == 0 else 1, wide))
            inner = network.conv(excited(network, inner, wide, swish), wide, outer)
            value, channels = network.add("Add", inner, value) if i > 0 else inner, outer
    network.write(value, path)


def quantized_network(path):
    """MobileNetV2 with quantized convolutions."""
    network, channels = Network([1, 3, 224, 224]), 32

    def quantized(value, low):
        scale, zero = (network.constant(np.array(v)) for v in (np.float32(0.05), low))
        value = network.add("QuantizeLinear", value, scale, zero)
        return network.add("DequantizeLinear", value, scale, zero)

    def conv(value, inner, outer, side=1, stride=1, group=1):
        drawn = network.random.integers(-127, 128, (outer, inner // group, side, side)).astype(np.int8)
        scale = network.constant(np.full(outer, 0.01 / side, np.float32))
        weights = network.add("DequantizeLinear", network.constant(drawn), scale,
                              network.constant(np.zeros(outer, np.int8)), axis=0)
        value = network.add("Conv", value, weights, network.weights(outer), strides=[stride] * 2,
                            pads=[side // 2] * 4, group=group)
        return quantized(value, np.uint8(128))

    value = conv(quantized("x", np.uint8(128)), 3, channels, 3, 2)
    for outer, stride, count in ((16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3), (160, 2, 3), (320, 1, 1)):
        for i in range(count):
            wide = channels * (6 if outer > 16 else 1)
            inner = conv(value, channels, wide) if wide > channels else value
            inner = conv(conv(inner, wide, wide, 3, stride if i == 0 else 1, wide), wide, outer)
            value = quantized(network.add("Add", inner, value), np.uint8(128)) if i > 0 else inner
            channels = outer
    network.write(value, path)


def recurrent_network(path):
    """A classifier of texts: two LSTM in both directions."""
    network = Network([64, 1], T.INT64)
    value = network.add("Gather", network.weights(5000, 128), "x")
    for inner in (128, 512):
        value = network.add("LSTM", value, network.weights(2, 1024, inner), network.weights(2, 1024, 256),
                            network.weights(2, 2048), hidden_size=256, direction="bidirectional")
        value = network.add("Reshape", network.add("Transpose", value, perm=[0, 2, 1, 3]),
                            network.constant(np.array([64, 1, 512], np.int64)))
    value = network.add("ReduceMean", value, axes=[0], keepdims=0)
    network.write(network.add("Gemm", value, network.weights(10, 512), network.weights(10), transB=1), path)


def networks():
    for name, write in (("small network", small_network), ("grouped convolutions", grouped_network),
                        ("blocks of EfficientNet", scaled_network)):
        for threads in (1, 2):
            yield Row(f"{name}, {threads} thread{'s' * (threads > 1)}", write, threads=threads)
    for name, write in (("LSTM", recurrent_network), ("quantized MobileNetV2", quantized_network),
                        ("blocks of EfficientNet", scaled_network), ("small network", small_network)):
        yield Row(f"opening {name}", write, "create")


def commit_rows():
    return [*pools(), *grouped(), *networks()]
