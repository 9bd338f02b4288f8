"""The structs of inlay/plugin.h that a plugin written in Python uses, with their order and sizes."""
import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint32, c_uint64,
                    c_void_p)

from ._library import Diag

NONE, RANK_UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFF
DIM_FIXED, DIM_UNKNOWN = 0, 2
OUTPUT_ALLOCATED, CONST_COPIED = 2, 1
REFUSE_OPERATOR, REFUSE_DTYPE = 1, 3
OPERATOR_RANDOM = 1


class Text(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint64)]

    def __str__(self):
        return ctypes.string_at(self.data, self.bytes).decode() if self.data else ""


class Dim(Structure):
    """A dimension. One that is not fixed may be copied unchanged."""
    _fields_ = [("value", c_int64), ("kind", c_uint32), ("symbol", c_uint32)]


class View(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint64), ("dims", POINTER(c_int64)), ("rank", c_uint32),
                ("dtype", c_int32)]


class AttrInfo(Structure):
    _fields_ = [("name", Text), ("kind", c_uint32), ("count", c_uint32), ("i", c_int64), ("f", c_double), ("s", Text),
                ("ints", POINTER(c_int64)), ("floats", POINTER(ctypes.c_float)), ("strings", POINTER(Text)),
                ("tensor", POINTER(View))]


class NodeInfo(Structure):
    _fields_ = [("name", Text), ("domain", Text), ("op_type", Text), ("since_version", c_uint32), ("flags", c_uint32),
                ("inputs", POINTER(c_uint32)), ("outputs", POINTER(c_uint32)), ("input_count", c_uint32),
                ("output_count", c_uint32), ("attrs", c_void_p), ("attr_count", c_uint32), ("attr_stride", c_uint32),
                ("bodies", c_void_p), ("body_count", c_uint32), ("body_stride", c_uint32)]


class ValueInfo(Structure):
    _fields_ = [("name", Text), ("kind", c_uint32), ("flags", c_uint32), ("dtype", c_int32), ("rank", c_uint32),
                ("dims", POINTER(Dim)), ("data", c_void_p), ("data_bytes", c_uint64), ("elements", POINTER(Dim)),
                ("element_count", c_uint64), ("content_hash", c_uint64), ("producer", c_uint32), ("reserved", c_uint32)]


class Graph(Structure):
    _fields_ = [("struct_size", c_uint64), ("name", Text), ("content_hash", c_uint64), ("nodes", c_void_p),
                ("values", c_void_p), ("symbols", c_void_p), ("inputs", POINTER(c_uint32)),
                ("outputs", POINTER(c_uint32)), ("node_count", c_uint32), ("node_stride", c_uint32),
                ("value_count", c_uint32), ("value_stride", c_uint32), ("symbol_count", c_uint32),
                ("symbol_stride", c_uint32), ("input_count", c_uint32), ("output_count", c_uint32),
                ("constant_bytes", c_uint64)]

    def node(self, index):
        return NodeInfo.from_address(self.nodes + index * self.node_stride)

    def value(self, index):
        """The value of an index of a node; None if the node omits it."""
        return None if index == NONE else ValueInfo.from_address(self.values + index * self.value_stride)


class ValueState(Structure):
    _fields_ = [("dims", POINTER(c_int64)), ("data", c_void_p), ("data_bytes", c_uint64), ("rank", c_uint32),
                ("dtype", c_int32)]


class Buffer(Structure):
    _fields_ = [("handle", c_uint64), ("offset", c_uint64), ("bytes", c_uint64), ("domain", c_uint32),
                ("reserved", c_uint32)]


class OutputRequest(Structure):
    _fields_ = [("struct_size", c_uint64), ("dims", POINTER(c_int64)), ("output", c_uint32), ("rank", c_uint32)]


OutputAlloc = CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(OutputRequest), POINTER(Buffer))


class Host(Structure):
    _fields_ = [("struct_size", c_uint64), ("abi_major", c_uint32), ("abi_minor", c_uint32),
                ("abi_major_oldest", c_uint32), ("reserved", c_uint32), ("ctx", c_void_p), ("log", c_void_p),
                ("parallel_for", c_void_p), ("thread_count", c_void_p), ("output_alloc", OutputAlloc),
                ("string_alloc", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_uint64))]


class Offer(Structure):
    _fields_ = [("struct_size", c_uint64), ("cookie", c_uint64), ("nodes", POINTER(c_uint32)), ("node_count", c_uint32),
                ("flags", c_uint32), ("placements", c_void_p), ("placement_count", c_uint32),
                ("placement_stride", c_uint32), ("workspace_bytes", c_uint64), ("resident_bytes", c_uint64)]


class Refusal(Structure):
    _fields_ = [("struct_size", c_uint64), ("node", c_uint32), ("code", c_uint32), ("text", c_char_p),
                ("accepted_if", c_char_p)]


class Sink(Structure):
    _fields_ = [("struct_size", c_uint64), ("ctx", c_void_p),
                ("offer", CFUNCTYPE(c_int32, c_void_p, POINTER(Offer))),
                ("refuse", CFUNCTYPE(c_int32, c_void_p, POINTER(Refusal)))]


class AssessRequest(Structure):
    _fields_ = [("struct_size", c_uint64), ("graph", POINTER(Graph)), ("candidates", POINTER(c_uint8)),
                ("sink", POINTER(Sink))]


class Cost(Structure):
    _fields_ = [("struct_size", c_uint64), ("ns", c_double)]


class CompileRequest(Structure):
    _fields_ = [("struct_size", c_uint64), ("handle", c_void_p), ("graph", POINTER(Graph)),
                ("nodes", POINTER(c_uint32)), ("cookies", c_void_p), ("inputs", POINTER(c_uint32)),
                ("outputs", POINTER(c_uint32)), ("node_count", c_uint32), ("offer_count", c_uint32),
                ("input_count", c_uint32), ("output_count", c_uint32), ("placements", c_void_p),
                ("placement_stride", c_uint32), ("reserved", c_uint32), ("constants", POINTER(c_uint8))]


class OutputPlan(Structure):
    _fields_ = [("max_bytes", c_uint64), ("kind", c_uint32), ("alias", c_uint32)]


class SpecializeRequest(Structure):
    _fields_ = [("struct_size", c_uint64), ("values", c_void_p), ("value_count", c_uint32), ("value_stride", c_uint32),
                ("max_threads", c_uint32), ("reserved", c_uint32), ("workspace_bytes", c_uint64),
                ("workspace_alignment", c_uint64), ("outputs", c_void_p), ("output_count", c_uint32),
                ("output_stride", c_uint32)]


class TensorArg(Structure):
    _fields_ = [("buffer", Buffer), ("dims", POINTER(c_int64)), ("rank", c_uint32), ("dtype", c_int32)]


class ExecArgs(Structure):
    _fields_ = [("struct_size", c_uint64), ("run", c_void_p), ("inputs", c_void_p), ("outputs", c_void_p),
                ("input_count", c_uint32), ("output_count", c_uint32), ("arg_stride", c_uint32),
                ("wait_count", c_uint32), ("workspace", Buffer), ("cancel", c_void_p), ("deadline_ns", c_uint64),
                ("waits", c_void_p), ("signal", c_uint64 * 2), ("diag", POINTER(Diag))]


Create = CFUNCTYPE(c_int32, c_void_p, POINTER(Host), c_void_p, POINTER(c_void_p), POINTER(Diag))
Destroy = CFUNCTYPE(None, c_void_p)
Assess = CFUNCTYPE(c_int32, c_void_p, POINTER(AssessRequest), POINTER(Diag))
Price = CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(Cost), POINTER(Diag))
Compile = CFUNCTYPE(c_int32, c_void_p, POINTER(CompileRequest), POINTER(c_void_p), POINTER(Diag))
Release = CFUNCTYPE(None, c_void_p, c_void_p)
Specialize = CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(SpecializeRequest), POINTER(c_void_p), POINTER(Diag))
ReleaseInstance = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
Execute = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, POINTER(ExecArgs))


class Provider(Structure):
    _fields_ = [("struct_size", c_uint64), ("name", c_char_p), ("description", c_char_p), ("device_kind", c_uint32),
                ("flags", c_uint32), ("options", c_void_p), ("option_count", c_uint32), ("option_stride", c_uint32),
                ("domains", c_void_p), ("domain_count", c_uint32), ("domain_stride", c_uint32),
                ("default_domain", c_uint32), ("poll_ms", c_uint32), ("ctx", c_void_p), ("create", Create),
                ("destroy", Destroy), ("quiesce", c_void_p), ("assess", Assess), ("cost", Price), ("compile", Compile),
                ("release_compiled", Release), ("specialize", Specialize), ("release_instance", ReleaseInstance),
                ("execute", Execute), ("unused", c_void_p * 9)]


class Infer(Structure):
    _fields_ = [("struct_size", c_uint64), ("ctx", c_void_p), ("node", POINTER(NodeInfo)),
                ("inputs", POINTER(POINTER(ValueInfo))), ("input_count", c_uint32), ("output_count", c_uint32),
                ("node_bytes", c_uint32), ("value_bytes", c_uint32),
                ("set_output", CFUNCTYPE(c_int32, c_void_p, c_uint32, c_int32, c_uint32, POINTER(Dim)))]


InferFn = CFUNCTYPE(c_int32, c_void_p, POINTER(Infer), POINTER(Diag))


class Operator(Structure):
    _fields_ = [("struct_size", c_uint64), ("domain", c_char_p), ("op_type", c_char_p), ("signature", c_char_p),
                ("doc", c_char_p), ("since_version", c_uint32), ("flags", c_uint32), ("ctx", c_void_p),
                ("infer", InferFn), ("examples", c_void_p), ("example_count", c_uint32), ("example_stride", c_uint32)]


class Plugin(Structure):
    _fields_ = [("struct_size", c_uint64), ("abi_major", c_uint32), ("abi_minor", c_uint32), ("name", c_char_p),
                ("version", c_char_p), ("build_id", c_char_p), ("flags", c_uint32), ("provider_count", c_uint32),
                ("providers", POINTER(Provider)), ("operators", POINTER(Operator)), ("provider_stride", c_uint32),
                ("operator_count", c_uint32), ("operator_stride", c_uint32), ("reserved", c_uint32), ("ctx", c_void_p),
                ("shutdown", c_void_p)]


OpenFn = CFUNCTYPE(c_int32, POINTER(Host), POINTER(POINTER(Plugin)), POINTER(Diag))
