"""The compile interface: it writes the optimised model. Compiled regions are in inlay's cache, not in the model."""
import ctypes
import os
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Callable, Optional

from ._enums import GraphOptimizationLevel, OrtCompileApiFlags
from ._errors import error
from ._ort import Handle, allocator, api, encode, env, out


class ModelCompiler(Handle):
    """Writes a model as sessions would run it, at a level of optimisation."""

    RELEASE = "ReleaseModelCompilationOptions"
    __slots__ = ("_keep",)

    def __init__(self, sess_options: Any, input_model_path_or_bytes: Any, embed_compiled_data_into_model: bool = False,
                 external_initializers_file_path: Any = None, external_initializers_size_threshold: int = 1024,
                 flags: Any = OrtCompileApiFlags.NONE,
                 graph_optimization_level: Any = GraphOptimizationLevel.ORT_DISABLE_ALL,
                 get_initializer_location_func: Optional[Callable] = None):
        super().__init__(0)
        if get_initializer_location_func is not None:
            raise error(9, "get_initializer_location_func is not supported; use external_initializers_file_path")
        self.handle = out(api.CreateModelCompilationOptionsFromSessionOptions, env, sess_options.handle)
        self._keep = input_model_path_or_bytes
        if isinstance(input_model_path_or_bytes, bytes):
            api.ModelCompilationOptions_SetInputModelFromBuffer(self.handle, input_model_path_or_bytes,
                                                                len(input_model_path_or_bytes))
        elif isinstance(input_model_path_or_bytes, (str, os.PathLike)):
            api.ModelCompilationOptions_SetInputModelPath(self.handle, encode(input_model_path_or_bytes))
        else:
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        if external_initializers_file_path:
            api.ModelCompilationOptions_SetOutputModelExternalInitializersFile(
                self.handle, encode(external_initializers_file_path), external_initializers_size_threshold)
        api.ModelCompilationOptions_SetFlags(self.handle, int(flags))
        api.ModelCompilationOptions_SetGraphOptimizationLevel(self.handle, int(graph_optimization_level))

    def compile_to_file(self, output_model_path: Any = None) -> None:
        if output_model_path is not None:
            api.ModelCompilationOptions_SetOutputModelPath(self.handle, encode(output_model_path))
        api.CompileModel(env, self.handle)

    def compile_to_bytes(self) -> bytes:
        data, size = c_void_p(), c_size_t()
        api.ModelCompilationOptions_SetOutputModelBuffer(self.handle, allocator, byref(data), byref(size))
        api.CompileModel(env, self.handle)
        try:
            return ctypes.string_at(data, size.value)
        finally:
            api.AllocatorFree(allocator, data)

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        data = self.compile_to_bytes()
        try:
            write_function(data)
        except Exception as problem:
            raise error(1, f"Error writing the model: {problem}") from problem
