"""Writes the models of tests/gpu.sh: products, convolutions, attention and networks with seeded random weights.

    networks.py DIR            writes DIR/NAME/model.onnx and inputs as DIR/NAME/INPUT.npy
    networks.py DIR NAME...    these models only

A layer is repeated between a small input and a small output, so that copies to and from the device do not matter:
`repeats` in DIR/NAME/what.json. Needs python3-onnx and numpy.
"""
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh


class Graph:
    """Nodes and constants of one model, all in one element type."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.nodes, self.constants = [], []
        self.inputs, self.outputs, self.values = [], [], {}
        self.rng = np.random.default_rng(7)

    def name(self, stem):
        return f'{stem}_{len(self.nodes) + len(self.constants)}'

    def add(self, op, *inputs, outputs=1, **attrs):
        names = [self.name(op.lower()) + (f'_{i}' if i else '') for i in range(outputs)]
        self.nodes.append(h.make_node(op, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def constant(self, array, dtype=None):
        name = self.name('c')
        array = np.asarray(array)
        if array.dtype == np.float32:
            array = array.astype(self.dtype if dtype is None else dtype)
        self.constants.append(nh.from_array(array, name))
        return name

    def weights(self, *shape, fan_in):
        return self.constant(self.rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(fan_in)))

    def input(self, name, array):
        self.values[name] = array
        kind = T.FLOAT if array.dtype == np.float32 else T.INT64
        self.inputs.append(h.make_tensor_value_info(name, kind, array.shape))
        return name

    def save(self, folder, result, shape, repeats=1, flops=0):
        os.makedirs(folder, exist_ok=True)
        out = self.add('Cast', result, to=T.FLOAT)
        self.outputs.append(h.make_tensor_value_info(out, T.FLOAT, shape))
        graph = h.make_graph(self.nodes, os.path.basename(folder), self.inputs, self.outputs, self.constants)
        model = h.make_model(graph, opset_imports=[h.make_opsetid('', 17)])
        model.ir_version = 8
        onnx.save(model, os.path.join(folder, 'model.onnx'))
        for name, array in self.values.items():
            np.save(os.path.join(folder, name + '.npy'), array)
        with open(os.path.join(folder, 'what.json'), 'w') as file:
            json.dump({'repeats': repeats, 'flops': flops}, file)

    def half(self, x):
        return x if self.dtype == np.float32 else self.add('Cast', x, to=T.FLOAT16)

    def random(self, *shape):
        return self.rng.standard_normal(shape, dtype=np.float32)


def product(folder, dtype, m, k, n, repeats):
    """x W V x ...: x is made on the device from a column and a row."""
    g = Graph(dtype)
    x = g.add('Mul', g.half(g.input('column', g.random(m, 1))), g.half(g.input('row', g.random(1, k))))
    there, back = g.weights(k, n, fan_in=k), g.weights(n, k, fan_in=n)
    for _ in range(repeats // 2):
        x = g.add('MatMul', g.add('MatMul', x, there), back)
    g.save(folder, g.add('ReduceMax', x, axes=[1], keepdims=0), [m], repeats, 2 * m * k * n)


def convolution(folder, dtype, channels, size, kernel, repeats, batch=1):
    g = Graph(dtype)
    x = g.add('Mul', g.half(g.input('plane', g.random(batch, 1, size, size))),
              g.half(g.input('channel', g.random(1, channels, 1, 1))))
    w = g.weights(channels, channels, kernel, kernel, fan_in=channels * kernel * kernel)
    for _ in range(repeats):
        x = g.add('Conv', x, w, pads=[kernel // 2] * 4)
    flops = 2 * batch * channels * channels * kernel * kernel * size * size
    g.save(folder, g.add('ReduceMax', x, axes=[2, 3], keepdims=0), [batch, channels], repeats, flops)


def norm(g, x, width):
    return g.add('LayerNormalization', x, g.constant(np.ones(width, np.float32)),
                 g.constant(np.zeros(width, np.float32)), axis=-1, epsilon=1e-5)


def linear(g, x, k, n):
    return g.add('Add', g.add('MatMul', x, g.weights(k, n, fan_in=k)), g.constant(0.02 * g.random(n)))


def heads_of(g, x, tokens, heads, width, perm):
    shape = g.constant(np.array([0, tokens, heads, width // heads], np.int64))
    return g.add('Transpose', g.add('Reshape', x, shape), perm=perm)


def attention(g, x, tokens, heads, width):
    q = heads_of(g, linear(g, x, width, width), tokens, heads, width, [0, 2, 1, 3])
    k = heads_of(g, linear(g, x, width, width), tokens, heads, width, [0, 2, 3, 1])
    v = heads_of(g, linear(g, x, width, width), tokens, heads, width, [0, 2, 1, 3])
    scale = g.constant(np.float32(1 / np.sqrt(width // heads)))
    p = g.add('Softmax', g.add('Mul', g.add('MatMul', q, k), scale), axis=-1)
    y = g.add('Transpose', g.add('MatMul', p, v), perm=[0, 2, 1, 3])
    return linear(g, g.add('Reshape', y, g.constant(np.array([0, tokens, width], np.int64))), width, width)


def gelu(g, x):
    root = g.constant(np.float32(np.sqrt(2)))
    e = g.add('Add', g.add('Erf', g.add('Div', x, root)), g.constant(np.float32(1)))
    return g.add('Mul', g.add('Mul', x, e), g.constant(np.float32(0.5)))


def encoder(g, x, tokens, heads, width, layers, first=False):
    """Layers of a transformer: norm after each part (BERT), or before it (ViT)."""
    for _ in range(layers):
        a = attention(g, norm(g, x, width) if first else x, tokens, heads, width)
        x = g.add('Add', x, a)
        x = x if first else norm(g, x, width)
        f = linear(g, gelu(g, linear(g, norm(g, x, width) if first else x, width, 4 * width)), 4 * width, width)
        x = g.add('Add', x, f)
        x = x if first else norm(g, x, width)
    return x


def bert(folder, dtype, tokens, layers=12, batch=1, width=768, heads=12):
    g = Graph(dtype)
    ids = g.input('ids', g.rng.integers(0, 1000, (batch, tokens)))
    x = g.add('Gather', g.weights(1000, width, fan_in=1), ids)
    x = norm(g, g.add('Add', x, g.weights(tokens, width, fan_in=1)), width)
    x = encoder(g, x, tokens, heads, width, layers)
    flops = 2 * batch * tokens * layers * (12 * width * width + 2 * tokens * width)
    g.save(folder, g.add('ReduceMean', x, axes=[1], keepdims=0), [batch, width], 1, flops)


def vit(folder, dtype, layers=12, width=768, heads=12):
    g = Graph(dtype)
    image = g.half(g.input('image', g.random(1, 3, 224, 224)))
    x = g.add('Conv', image, g.weights(width, 3, 16, 16, fan_in=768), strides=[16, 16])
    x = g.add('Transpose', g.add('Reshape', x, g.constant(np.array([0, width, 196], np.int64))), perm=[0, 2, 1])
    x = g.add('Add', x, g.weights(196, width, fan_in=1))
    x = norm(g, encoder(g, x, 196, heads, width, layers, first=True), width)
    g.save(folder, linear(g, g.add('ReduceMean', x, axes=[1], keepdims=0), width, 1000), [1, 1000])


def conv(g, x, c, n, kernel, stride=1, group=1):
    w = g.weights(n, c // group, kernel, kernel, fan_in=c // group * kernel * kernel / 1.6)
    return g.add('Conv', x, w, g.constant(0.02 * g.random(n)), strides=[stride] * 2, pads=[kernel // 2] * 4,
                 group=group)


def resnet50(folder, dtype, batch=1):
    g = Graph(dtype)
    x = g.half(g.input('image', g.random(batch, 3, 224, 224)))
    x = g.add('Relu', conv(g, x, 3, 64, 7, 2))
    x = g.add('MaxPool', x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = g.add('Relu', conv(g, x, c, width, 1))
            y = g.add('Relu', conv(g, y, width, width, 3, stride))
            y = g.add('Mul', conv(g, y, width, 4 * width, 1), g.constant(np.float32(0.5)))
            x = g.add('Relu', g.add('Add', y, x if block else conv(g, x, c, 4 * width, 1, stride)))
            c = 4 * width
    x = g.add('Flatten', g.add('GlobalAveragePool', x))
    g.save(folder, linear(g, x, 2048, 1000), [batch, 1000], 1, batch * 8.2e9)


def mobilenet(folder, dtype):
    g = Graph(dtype)
    x = g.add('Clip', conv(g, g.half(g.input('image', g.random(1, 3, 224, 224))), 3, 32, 3, 2),
              g.constant(np.float32(0)), g.constant(np.float32(6)))
    c = 32
    for t, n, repeat, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                 (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(repeat):
            y = g.add('Relu', conv(g, x, c, c * t, 1))
            y = g.add('Relu', conv(g, y, c * t, c * t, 3, 1 if i else stride, c * t))
            y = conv(g, y, c * t, n, 1)
            x = g.add('Add', x, y) if i else y
            c = n
    x = g.add('Flatten', g.add('GlobalAveragePool', g.add('Relu', conv(g, x, 320, 1280, 1))))
    g.save(folder, linear(g, x, 1280, 1000), [1, 1000])


def decoder(folder, dtype, past=127, layers=12, width=768, heads=12):
    """One step of a decoder: a token, and keys and values of `past` earlier ones."""
    g = Graph(dtype)
    x = g.add('Gather', g.weights(1000, width, fan_in=1), g.input('ids', g.rng.integers(0, 1000, (1, 1))))
    cache = g.half(g.input('cache', 0.1 * g.random(1, heads, past, width // heads)))
    for _ in range(layers):
        y = norm(g, x, width)
        q = heads_of(g, linear(g, y, width, width), 1, heads, width, [0, 2, 1, 3])
        k = g.add('Concat', cache, heads_of(g, linear(g, y, width, width), 1, heads, width, [0, 2, 1, 3]), axis=2)
        v = g.add('Concat', cache, heads_of(g, linear(g, y, width, width), 1, heads, width, [0, 2, 1, 3]), axis=2)
        s = g.add('Mul', g.add('MatMul', q, g.add('Transpose', k, perm=[0, 1, 3, 2])), g.constant(np.float32(0.125)))
        y = g.add('Transpose', g.add('MatMul', g.add('Softmax', s, axis=-1), v), perm=[0, 2, 1, 3])
        y = g.add('Reshape', y, g.constant(np.array([0, 1, width], np.int64)))
        x = g.add('Add', x, linear(g, y, width, width))
        x = g.add('Add', x, linear(g, gelu(g, linear(g, norm(g, x, width), width, 4 * width)), 4 * width, width))
    g.save(folder, linear(g, norm(g, x, width), width, 1000), [1, 1, 1000])


F, H = np.float32, np.float16
MODELS = {
    'resnet50_f32': lambda d: resnet50(d, F),
    'bert_f32': lambda d: bert(d, F, 128),
    'mobilenet_f32': lambda d: mobilenet(d, F),
    'vit_f32': lambda d: vit(d, F),
    'decoder_f32': lambda d: decoder(d, F),
    'resnet50_f16': lambda d: resnet50(d, H),
    'bert_f16': lambda d: bert(d, H, 128),
    'vit_f16': lambda d: vit(d, H),
    'decoder_f16': lambda d: decoder(d, H),
    'resnet50_f16_batch16': lambda d: resnet50(d, H, 16),
    'bert_f16_batch8': lambda d: bert(d, H, 128, batch=8),
    'matmul_f32_1024': lambda d: product(d, F, 1024, 1024, 1024, 16),
    'matmul_f32_4096': lambda d: product(d, F, 4096, 4096, 4096, 4),
    'matmul_f16_1024': lambda d: product(d, H, 1024, 1024, 1024, 16),
    'matmul_f16_4096': lambda d: product(d, H, 4096, 4096, 4096, 4),
    'matmul_f32_row': lambda d: product(d, F, 1, 4096, 4096, 16),
    'matmul_f16_row': lambda d: product(d, H, 1, 4096, 4096, 16),
    'conv1_f32': lambda d: convolution(d, F, 256, 56, 1, 16),
    'conv3_f32': lambda d: convolution(d, F, 256, 56, 3, 16),
    'conv1_f16': lambda d: convolution(d, H, 256, 56, 1, 16),
    'conv3_f16': lambda d: convolution(d, H, 256, 56, 3, 16),
    'matmul_odd_f32': lambda d: product(d, F, 67, 131, 259, 4),
    'matmul_odd_f16': lambda d: product(d, H, 67, 131, 259, 4),
    'conv_odd_f32': lambda d: convolution(d, F, 37, 29, 3, 4),
    'conv_odd_f16': lambda d: convolution(d, H, 37, 29, 3, 4),
}

if __name__ == '__main__':
    for wanted in sys.argv[2:] or MODELS:
        MODELS[wanted](os.path.join(sys.argv[1], wanted))
