"""Operators written in Python, for experiments: each run calls the function with numpy arrays.

    @inlay.operator("com.example::Scale", "X:T -> Y:T; T=float|double; by:f=1")
    def scale(x, by):
        return x * by

The signature has the notation of inlay/plugin.h: inputs -> outputs; type sets; attributes. Sessions created afterwards
can use the operator; the provider ``python`` runs it, on one thread at a time. An array of strings has elements of type
``str``."""
import ctypes
import itertools
import re
import threading
from typing import Any, Callable, Optional

import numpy as np

from . import _plugin as abi
from ._library import Diag, Str, lib, plugins_in_use
from .errors import check, remember_cause
from .values import DTYPES, STRING, decode_texts, encode_texts

OK, INVALID_ARGUMENT, OUT_OF_MEMORY, INTERNAL = 0, 1, 2, 13
_FLOAT, _INT, _STRING, _TENSOR, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 4, 6, 7, 8

# Held while an operator is defined. Callbacks do without: the garbage collector may run in any of them, and while this is
# held, and destroy sessions, which calls _release(). What they change is atomic.
_lock = threading.Lock()
_operators = {}  # (domain, name, version): _Operator
_regions = {}    # handle: _Region
_instances = {}  # handle: the shapes of the outputs, None where the rank is not known
_kept = []       # objects that the host uses until the process ends
_handles = itertools.count(1)
_compiled = [0]  # the handle of the latest region


def _fail(diag, code: int, what: str, cause: BaseException, node: str = "") -> int:
    """Fills a diag, as inlay_fail() does, with an exception that becomes the __cause__ of the error."""
    if diag:
        text = f"{what}: {type(cause).__name__}: {cause}".encode(errors="replace")[:511]
        diag.contents.code = code
        diag.contents.text = text
        diag.contents.node = node.encode(errors="replace")[:127]
        remember_cause(text.decode(errors="replace"), cause)
    return code


def _array(address: int, dtype: int, dims) -> np.ndarray:
    if dtype == STRING:
        return decode_texts(address, dims)
    kind = np.dtype(DTYPES[dtype][1])
    count = int(np.prod(dims, dtype=np.int64))
    if count == 0:
        return np.empty(dims, kind)
    memory = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    out = np.frombuffer(memory, kind).reshape(dims)
    out.flags.writeable = False
    return out


def _attribute(attribute: abi.AttrInfo) -> Any:
    if attribute.kind == _TENSOR:
        view = attribute.tensor.contents
        return _array(view.data, view.dtype, tuple(view.dims[:view.rank])).copy()
    count = attribute.count
    return {_FLOAT: lambda: attribute.f, _INT: lambda: attribute.i, _STRING: lambda: str(attribute.s),
            _FLOATS: lambda: attribute.floats[:count], _INTS: lambda: attribute.ints[:count],
            _STRINGS: lambda: [str(attribute.strings[i]) for i in range(count)]}[attribute.kind]()


class _Operator:
    """A registered operator, and the functions that sessions created from now on use."""

    def __init__(self, signature: str, pure: bool, function, infer):
        self.signature, self.pure, self.function, self.infer = signature, pure, function, infer


class _Region:
    """A compiled node: the sources of its inputs, and the positions of its outputs."""

    def __init__(self, request: abi.CompileRequest):
        graph = request.graph.contents
        node = graph.node(request.nodes[0])
        entering = request.inputs[:request.input_count]
        leaving = request.outputs[:request.output_count]
        self.name = str(node.name)
        self.function = _operators[_key(node)].function
        self.attributes = {}
        for i in range(node.attr_count):
            attribute = abi.AttrInfo.from_address(node.attrs + i * node.attr_stride)
            self.attributes[str(attribute.name)] = _attribute(attribute)
        self.inputs = []  # for each input: its index in the run's inputs, a constant array, or None
        for index in node.inputs[:node.input_count]:
            value = graph.value(index)
            if index in entering:
                self.inputs.append(entering.index(index))
            elif value is None:
                self.inputs.append(None)
            else:
                dims = tuple(value.dims[d].value for d in range(value.rank))
                self.inputs.append(_array(value.data, value.dtype, dims).copy())
                request.constants[index] = abi.CONST_COPIED
        outputs = node.outputs[:node.output_count]
        self.outputs = [leaving.index(index) if index in leaving else None for index in outputs]
        self.values = [leaving[place] if place is not None else None for place in self.outputs]
        self.names = [None if index == abi.NONE else str(graph.value(index).name) for index in outputs]
        self.types = [None if index == abi.NONE else _numpy_type(graph.value(index).dtype) for index in outputs]

    def call(self, arrays, shapes):
        """Calls the function; returns arrays of the outputs' types and of these shapes, where they are known."""
        result = self.function(*arrays, **self.attributes)
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != len(self.outputs):
            raise ValueError(f"returned {len(result)} values for {len(self.outputs)} outputs")
        arrays = []
        for value, kind, name, shape in zip(result, self.types, self.names, shapes):
            if kind is None:
                arrays.append(None)
                continue
            if value is None:
                raise ValueError(f"returned None for output '{name}'; does it lack a return?")
            array = np.asarray(value, kind)
            if shape is not None and not _fits(array.shape, shape):
                raise ValueError(f"returned shape {list(array.shape)} for output '{name}', which is "
                                 f"[{', '.join('?' if size < 0 else str(size) for size in shape)}] by shape inference")
            arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return arrays


def _key(node):
    return str(node.domain), str(node.op_type), node.since_version


def _numpy_type(dtype: int):
    """The type of an array of these elements; None if numpy has none."""
    return object if dtype == STRING else DTYPES.get(dtype, (None, None))[1]


def _fits(shape, known) -> bool:
    """Does a shape agree with a known one, whose unknown sizes are -1?"""
    return len(shape) == len(known) and all(size < 0 or size == got for got, size in zip(shape, known))


def latest_compiled() -> int:
    """A number that is another one after each node that the provider compiles, for any session."""
    return _compiled[0]


# ------------------------------------------------------------------ the provider


def _create(ctx, host, args, out_state, diag):
    _provider.host = host.contents
    out_state[0] = 1
    return OK


def _refusal_reason(graph, node) -> Optional[str]:
    """Returns why this provider cannot run the node; None if it can."""
    for index in [*node.inputs[:node.input_count], *node.outputs[:node.output_count]]:
        value = graph.value(index)
        if value is not None and _numpy_type(value.dtype) is None:
            return f"value {value.name} has a type that numpy does not have"
    return None


def _assess(state, request, diag):
    request = request.contents
    graph, candidates, sink = request.graph.contents, request.candidates, request.sink.contents
    status = OK
    for node_index in range(graph.node_count):
        if not candidates[node_index] or status != OK:
            continue
        node = graph.node(node_index)
        code, text = abi.REFUSE_OPERATOR, "not an operator written in Python"
        if _key(node) in _operators:
            code, text = abi.REFUSE_DTYPE, _refusal_reason(graph, node)
        if text is None:
            index = ctypes.c_uint32(node_index)
            offer = abi.Offer(struct_size=ctypes.sizeof(abi.Offer), cookie=node_index, nodes=ctypes.pointer(index),
                              node_count=1)
            status = sink.offer(sink.ctx, ctypes.byref(offer))
        else:
            refusal = abi.Refusal(ctypes.sizeof(abi.Refusal), node_index, code, text.encode(), None)
            status = sink.refuse(sink.ctx, ctypes.byref(refusal))
    return status


def _price(state, request, cost, diag):
    cost.contents.ns = 50000.0  # approximate time of a call of Python
    return OK


def _compile(state, request, out_compiled, diag):
    try:
        region = _Region(request.contents)
    except BaseException as error:  # must not propagate into the host
        return _fail(diag, INTERNAL, "provider python", error)
    handle = next(_handles)
    _regions[handle] = region
    _compiled[0] = out_compiled[0] = handle
    return OK


def _release(state, compiled):
    _regions.pop(compiled, None)


def _specialize(state, compiled, request, out_instance, diag):
    request = request.contents
    for i in range(request.output_count):
        plan = abi.OutputPlan.from_address(request.outputs + i * request.output_stride)
        plan.kind = abi.OUTPUT_ALLOCATED
    shapes = []
    for value in _regions[compiled].values:
        known = None if value is None else abi.ValueState.from_address(request.values + value * request.value_stride)
        shapes.append(None if known is None or known.rank == abi.RANK_UNKNOWN else tuple(known.dims[:known.rank]))
    handle = next(_handles)
    _instances[handle] = shapes
    out_instance[0] = handle
    return OK


def _release_instance(state, compiled, instance):
    _instances.pop(instance, None)


def _write_strings(args, buffer, array) -> int:
    host = _provider.host
    texts = encode_texts(array)
    strings = (Str * len(texts)).from_address(buffer.handle + buffer.offset) if texts else ()
    for string, text in zip(strings, texts):
        memory = host.string_alloc(host.ctx, args.run, len(text))
        if not memory:
            return OUT_OF_MEMORY
        ctypes.memmove(memory, text, len(text))
        string.data, string.bytes = memory, len(text)
    return OK


def _write_output(args, place, array) -> int:
    buffer = abi.Buffer()
    dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    host = _provider.host
    request = abi.OutputRequest(struct_size=ctypes.sizeof(abi.OutputRequest), dims=dims, output=place, rank=array.ndim)
    status = host.output_alloc(host.ctx, args.run, ctypes.byref(request), ctypes.byref(buffer))
    if status == OK and array.dtype == object:
        return _write_strings(args, buffer, array)
    if status == OK and array.nbytes > 0:
        ctypes.memmove(buffer.handle + buffer.offset, array.ctypes.data, array.nbytes)
    return status


def _execute(state, compiled, instance, args):
    args = args.contents
    region = _regions[compiled]
    try:
        arrays = []
        for source in region.inputs:
            if isinstance(source, int):
                arg = abi.TensorArg.from_address(args.inputs + source * args.arg_stride)
                source = _array(arg.buffer.handle + arg.buffer.offset, arg.dtype, tuple(arg.dims[:arg.rank]))
            arrays.append(source)
        results = region.call(arrays, _instances[instance])
        for place, array in zip(region.outputs, results):
            status = _write_output(args, place, array) if place is not None else OK
            if status != OK:
                return status
        return OK
    except BaseException as error:  # must not propagate into the host
        return _fail(args.diag, INVALID_ARGUMENT, f"node '{region.name}': the Python function failed", error,
                     region.name)


def _infer(operator: _Operator):
    """Returns a shape inference function of the plugin interface, which calls operator.infer. Shapes are tuples, None
    for an omitted input. A size is an int, or an abi.Dim of the host if it is not known yet."""
    def infer(ctx, pointer, diag):
        request = pointer.contents
        try:
            shapes = []
            for i in range(request.input_count):
                if not request.inputs[i]:
                    shapes.append(None)
                    continue
                value = request.inputs[i].contents
                if value.rank == abi.RANK_UNKNOWN:
                    return OK
                shapes.append(tuple(
                    value.dims[d].value if value.dims[d].kind == abi.DIM_FIXED
                    else abi.Dim(value.dims[d].value, value.dims[d].kind, value.dims[d].symbol)
                    for d in range(value.rank)))
            for i, shape in enumerate(operator.infer(*shapes)):
                dims = (abi.Dim * max(len(shape), 1))()
                for d, size in enumerate(shape):
                    dims[d] = (size if isinstance(size, abi.Dim) else
                               abi.Dim(-1, abi.DIM_UNKNOWN, 0) if size is None else abi.Dim(size, abi.DIM_FIXED, 0))
                status = request.set_output(request.ctx, i, 0, len(shape), dims)
                if status != OK:
                    return status
            return OK
        except BaseException as error:  # must not propagate into the host
            return _fail(diag, INVALID_ARGUMENT, "shape inference of an operator written in Python failed", error)
    return infer


class _ProviderHolder:
    """The plugin with the provider, registered with the first operator."""

    def __init__(self):
        self.host, self.registered = None, False

    def register(self):
        if self.registered:
            return
        self.table = abi.Provider(
            struct_size=ctypes.sizeof(abi.Provider), name=b"python", description=b"operators written in Python",
            device_kind=1, create=abi.Create(_create), destroy=abi.Destroy(lambda state: None),
            assess=abi.Assess(_assess), cost=abi.Price(_price), compile=abi.Compile(_compile),
            release_compiled=abi.Release(_release), specialize=abi.Specialize(_specialize),
            release_instance=abi.ReleaseInstance(_release_instance), execute=abi.Execute(_execute))
        _register(abi.Plugin(struct_size=ctypes.sizeof(abi.Plugin), abi_major=1, name=b"python", version=b"1",
                             build_id=b"python", provider_count=1, providers=ctypes.pointer(self.table),
                             provider_stride=ctypes.sizeof(abi.Provider)))
        self.registered = True


_provider = _ProviderHolder()


def _register(plugin: abi.Plugin) -> None:
    def open_plugin(host, out_plugin, diag):
        out_plugin[0] = ctypes.pointer(plugin)
        return OK

    entry = abi.OpenFn(open_plugin)
    _kept.append((plugin, entry))
    with plugins_in_use:
        check(lib.plugin_register, ctypes.cast(entry, ctypes.c_void_p))


def operator(name: str, signature: str, *, version: int = 1, infer: Optional[Callable] = None, pure: bool = True,
             doc: str = "") -> Callable[[Callable], Callable]:
    """Makes the decorated function the operator ``DOMAIN::NAME``.

    It is called with an array per input (None for an omitted input) and the attributes as keyword arguments, and
    returns an array or a tuple of arrays. ``infer(*shapes)`` may return the shapes of the outputs, which helps
    planning; by default the run determines them. ``pure=False``: two calls may differ, so calls are neither merged nor
    precomputed. ``version``: models that import this version of the domain, or a later one below the operator's next
    version, use it.

    A function that is defined again, as by a notebook's cell, replaces the operator for sessions that are created
    afterwards. Its signature stays: registered operators last until the process ends."""
    domain, _, op_type = name.partition("::")
    if not re.fullmatch(r"[\w.-]+", domain) or not re.fullmatch(r"\w+", op_type):
        raise ValueError(f"operator {name!r}: expected DOMAIN::NAME, such as 'com.example::Scale'")

    def decorate(function: Callable) -> Callable:
        key = domain, op_type, version
        with _lock:
            known = _operators.get(key)
            if known is not None:
                if (known.signature, known.pure, known.infer is None) != (signature, pure, infer is None):
                    raise ValueError(f"operator {name}, version {version}, exists with signature {known.signature!r}; "
                                     "change it under another version, or in a new process")
                known.function, known.infer = function, infer
                return function
            _provider.register()
            entry = _Operator(signature, pure, function, infer)
            row = abi.Operator(struct_size=ctypes.sizeof(abi.Operator), domain=domain.encode(),
                               op_type=op_type.encode(), signature=signature.encode(),
                               doc=(doc or function.__doc__ or "").encode() or None, since_version=version,
                               flags=0 if pure else abi.OPERATOR_RANDOM)
            if infer is not None:
                row.infer = abi.InferFn(_infer(entry))
            label = re.sub(r"\W", "_", f"python_{domain}_{op_type}_{version}").lower().encode()
            _register(abi.Plugin(struct_size=ctypes.sizeof(abi.Plugin), abi_major=1, name=label, version=b"1",
                                 build_id=label, operators=ctypes.pointer(row), operator_count=1,
                                 operator_stride=ctypes.sizeof(abi.Operator)))
            _kept.append(row)
            _operators[key] = entry
        return function

    return decorate
