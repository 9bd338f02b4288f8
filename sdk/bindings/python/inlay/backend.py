"""ONNX's backend interface (onnx.backend.base): ``import inlay.backend; inlay.backend.prepare(model).run(inputs)``."""
from typing import Any, Tuple

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from .session import Session


class InlayRep(BackendRep):
    """A loaded model."""

    def __init__(self, session: Session):
        super().__init__()
        self.session = session

    def run(self, inputs: Any, **options: Any) -> Tuple[Any, ...]:
        """inputs: a value per input, in order; a single input need not be in a list. Returns the outputs in order, and
        by name if the names are valid in Python."""
        if not isinstance(inputs, (list, tuple, dict)) or (isinstance(inputs, list) and len(self.session.inputs) == 1
                                                           and self.session.inputs[0].kind == "sequence"
                                                           and len(inputs) != 1):
            inputs = [inputs]
        results = self.session.run(inputs, **options)
        names = [info.name for info in self.session.outputs]
        return namedtupledict("Outputs", names)(*(results[name] for name in names))


class InlayBackend(Backend):
    """The only supported device is CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> InlayRep:
        """model: a ModelProto, its bytes, or a path. options: those of inlay.Session."""
        if not cls.supports_device(device):
            raise ValueError(f"inlay's backend runs on CPU, not on {device}")
        return InlayRep(Session(model, **options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **options: Any) -> Tuple[Any, ...]:
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **options: Any) -> Tuple[Any, ...]:
        """Runs one node on arrays, with the opset of option opset_version or the newest that onnx supports."""
        super().run_node(node, inputs, device, outputs_info)
        import numpy as np
        from onnx import TensorProto, helper
        types = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE
        arrays = [np.asarray(i) for i in inputs]
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        infos = [helper.make_tensor_value_info(name, types[array.dtype], array.shape)
                 for name, array in zip((name for name in node.input if name), arrays)]
        results = [helper.make_empty_tensor_value_info(name) if outputs_info is None else
                   helper.make_tensor_value_info(name, types[np.dtype(kind)], shape)
                   for name, (kind, shape) in zip((name for name in node.output if name), outputs_info or
                                                  [(TensorProto.FLOAT, None)] * len(node.output))]
        graph = helper.make_graph([node], "run_node", infos, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)], ir_version=8)
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = InlayBackend.is_compatible
prepare = InlayBackend.prepare
run_model = InlayBackend.run_model
run_node = InlayBackend.run_node
supports_device = InlayBackend.supports_device
