"""Families of control flow: bodies that read values of the graph around them, conditions and counts that only a run
knows, and loops without an iteration."""
import numpy as np
from families import F, family, weights
from onnx import TensorProto as T, helper


class Body:
    """The nodes of a body. Inputs and outputs have a type, and any shape unless one is given."""
    def __init__(self, g):
        self.g, self.nodes, self.inputs = g, [], []

    def input(self, dtype, shape=None):
        self.inputs.append(helper.make_tensor_value_info(self.g.name(), dtype, shape))
        return self.inputs[-1].name

    def add(self, op, *inputs, **attributes):
        """Adds a node. Arrays become constants of the graph around the body, or of a node of the body."""
        names = []
        for given in inputs:
            if isinstance(given, str):
                names.append(given)
            elif self.g.chance(.5):
                names.append(self.g.constant(given))
            else:
                names.append(self.add("Constant", value=helper.make_tensor(
                    self.g.name(), helper.mapping.NP_TYPE_TO_TENSOR_TYPE[np.asarray(given).dtype],
                    np.asarray(given).shape, np.asarray(given).ravel())))
        self.nodes.append(helper.make_node(op, names, [self.g.name()], **attributes))
        return self.nodes[-1].output[0]

    def finish(self, *outputs):
        return helper.make_graph(self.nodes, self.g.name(), self.inputs,
                                 [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs])


def changed(g, body, x, shape):
    """A few operators of the body that keep the shape and read values of the graph around it."""
    for _ in range(1 + g.below(3)):
        kind = g.pick(["unary", "captured", "constant", "product", "normal"])
        if kind == "product" and len(shape) >= 2:
            x = body.add("MatMul", x, weights(g, shape[-1], shape[-1]))
        elif kind == "normal":
            x = body.add("Div", x, body.add("Add", body.add("ReduceMax", body.add("Abs", x), axes=[g.axis(shape)]), F(1)))
        elif kind == "captured":
            x = body.add(g.pick(["Add", "Mul", "Max", "Sub"]), x, g.alike(shape))
        elif kind == "constant":
            x = body.add(g.pick(["Add", "Mul"]), x, g.numbers.standard_normal(shape[-1]).astype(F))
        else:
            x = body.add(g.pick(["Tanh", "Relu", "Sigmoid", "Neg", "Softsign"]), x)
    return x


def condition_of(g, x):
    return g.add("Greater", g.add("ReduceMax", x, keepdims=0), F(g.pick([-9, .5, 2, 9e9])))


@family(1)
def branches(g, x, shape):
    """An If whose branches read several values, one of them perhaps with another If."""
    made = []
    for _ in range(2):
        body = Body(g)
        y = changed(g, body, g.alike(shape), shape)
        if g.chance(.3):
            inner = []
            for _ in range(2):
                inside = Body(g)
                inner.append(inside.finish((changed(g, inside, g.pick([x, y]), shape), T.FLOAT)))
            y = body.add("If", condition_of(g, x), then_branch=inner[0], else_branch=inner[1])
        made.append(body.finish((y, T.FLOAT)))
    condition = np.array(bool(g.below(2))) if g.chance(.2) else condition_of(g, x)
    return g.add("If", condition, then_branch=made[0], else_branch=made[1], known=[(T.FLOAT, shape)])


def trips_of(g, x):
    """A number of iterations, often 0: constant, from a size, or from an element."""
    kind = g.pick(["constant", "size", "element"])
    if kind == "constant":
        return np.array(g.pick([0, 0, 1, 2, 3]), np.int64)
    if kind == "size":
        rank = g.add("Size", g.add("Shape", x))
        return g.add("Sub", rank, np.array(g.pick([1, 2, 3, 9]), np.int64))
    top = g.add("Clip", g.add("ReduceMax", x, keepdims=0), F(0), F(3))
    return g.add("Cast", top, to=T.INT64)


@family(2)
def loop(g, x, shape):
    """One or two carried values, and perhaps a scan output, of which there may be no row."""
    body, scans = Body(g), g.chance(.5)
    body.input(T.INT64, [])
    going = body.input(T.BOOL, [])
    carried = [body.input(T.FLOAT) for _ in range(1 + g.below(2))]
    results = [changed(g, body, value, shape) for value in carried]
    top = body.add("ReduceMax", body.add("Abs", results[0]), keepdims=0)
    on = body.add("Less", top, F(g.pick([1, 3, 1e30]))) if g.chance(.4) else body.add("Identity", going)
    rows = [body.add("Neg", results[0])] if scans else []
    made = g.add("Loop", trips_of(g, x), np.array(g.chance(.9)), *[g.alike(shape) for _ in carried],
                 outputs=len(carried) + len(rows), unread=True,
                 body=body.finish((on, T.BOOL), *[(y, T.FLOAT) for y in results + rows]),
                 known=[(T.FLOAT, shape)] * len(carried) + [(T.FLOAT, [2] + shape)] * len(rows))
    made = made if isinstance(made, list) else [made]
    g.hidden.update(made[len(carried):])
    for row in made[len(carried):]: # the rows are of unknown number: their sum is 0 if there is none
        made[0] = g.add("Add", made[0], g.add("ReduceSum", row, np.array([0], np.int64), keepdims=0))
    return g.add("Identity", made[0])


@family(1)
def nested(g, x, shape):
    """A loop in a loop, as often as the number of the outer iteration: never in the first one. The inner body reads
    values of the outer one and of the graph."""
    outer, inner = Body(g), Body(g)
    turn, going, value = outer.input(T.INT64, []), outer.input(T.BOOL, []), outer.input(T.FLOAT)
    inner.input(T.INT64, [])
    more, carried = inner.input(T.BOOL, []), inner.input(T.FLOAT)
    y = changed(g, inner, inner.add(g.pick(["Add", "Max"]), carried, g.pick([value, x])), shape)
    inside = inner.finish((inner.add("Identity", more), T.BOOL), (inner.add("Tanh", y), T.FLOAT))
    z = outer.add("Loop", turn, going, g.pick([value, x]), body=inside)
    body = outer.finish((outer.add("Identity", going), T.BOOL), (changed(g, outer, z, shape), T.FLOAT))
    return g.add("Loop", trips_of(g, x), np.array(True), g.alike(shape), body=body, known=[(T.FLOAT, shape)])


@family(1)
def growing(g, x, shape):
    """A loop without a count, ended by its condition, with a carried value that grows by x in each iteration."""
    body, axis, most = Body(g), g.axis(shape), g.pick([0, 1, 2, 3])
    turn, _, carried = body.input(T.INT64, []), body.input(T.BOOL, []), body.input(T.FLOAT)
    y = body.add("Concat", body.add("Tanh", carried), x, axis=axis)
    body = body.finish((body.add("Less", turn, np.array(most, np.int64)), T.BOOL), (y, T.FLOAT))
    start = np.array(bool(g.below(2))) if g.chance(.3) else condition_of(g, x)
    grown = g.add("Loop", None, start, g.alike(shape), unread=True, body=body,
                  known=[(T.FLOAT, shape[:axis] + [shape[axis] + 1] + shape[axis + 1:])])
    g.hidden.add(grown)
    return g.add("Add", x, g.add("ReduceMax", grown, axes=[axis], keepdims=1))


@family(1, 2, 3)
def scan(g, x, shape):
    """A state and one or two scanned inputs, along any axis and in both directions."""
    axis, inputs, state = g.axis(shape), 1 + g.below(2), g.pick([[], [3]])
    row = shape[:axis] + shape[axis + 1:]
    body = Body(g)
    kept = body.input(T.FLOAT, state)
    rows = [body.input(T.FLOAT, row) for _ in range(inputs)]
    y = changed(g, body, rows[0], row) if row else body.add("Tanh", rows[0])
    y = body.add("Add", y, rows[-1])
    total = body.add("ReduceSum", body.add("Tanh", y), keepdims=0)
    after = body.add("Add", body.add("Mul", kept, F(.5)), total)
    start = g.numbers.standard_normal(state).astype(F)
    return g.add("Scan", start, *[x] + [g.alike(shape) for _ in rows[1:]], outputs=2, num_scan_inputs=inputs,
                 body=body.finish((after, T.FLOAT), (y, T.FLOAT)), scan_input_axes=[axis] * inputs,
                 scan_input_directions=[g.below(2) for _ in rows], scan_output_directions=[g.below(2)],
                 scan_output_axes=[g.axis(shape)])
