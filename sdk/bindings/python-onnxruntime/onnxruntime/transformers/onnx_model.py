"""The optimised model of optimize_model()."""
from collections import Counter

from ..capi._program import not_supported


class OnnxModel:
    """A model of the package onnx."""

    def __init__(self, model):
        self.model = model

    @classmethod
    def load(cls, path):
        import onnx

        return cls(onnx.load(path))

    def graph(self):
        return self.model.graph

    def nodes(self):
        return list(self.model.graph.node)

    def get_operator_statistics(self, include_domain=False):
        return dict(Counter(f"{node.domain}:{node.op_type}" if include_domain and node.domain else node.op_type
                            for node in self.nodes()))

    get_fused_operator_statistics = get_operator_statistics

    def save_model_to_file(self, output_path, use_external_data_format=False, all_tensors_to_one_file=True,
                           convert_attribute=False):
        import onnx

        if use_external_data_format:
            onnx.save(self.model, output_path, save_as_external_data=True,
                      all_tensors_to_one_file=all_tensors_to_one_file, location=f"{output_path}.data".split("/")[-1],
                      convert_attribute=convert_attribute)
        else:
            onnx.save(self.model, output_path)


for _name, _function in not_supported(
        __name__ + ".OnnxModel", ("convert_float_to_float16", "change_graph_inputs_to_int32", "use_dynamic_axes",
                                  "topological_sort", "prune_graph"),
        "`inlay optimize`, `edit` and `quantize` change model files").items():
    setattr(OnnxModel, _name, _function)
