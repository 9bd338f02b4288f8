"""The program inlay, which quantizes and optimises model files for the packages quantization, tools and transformers.

It is the file in the variable INLAY_PROGRAM if that is set, otherwise ``bin/inlay`` of the installation whose
libinlay.so.1 the package inlay loads, otherwise ``inlay`` in the search path."""
import contextlib
import json
import logging
import os
import shutil
import subprocess
import tempfile
from typing import Iterator, List, Sequence, Union

from ._errors import Fail
from ._ort import library_folders

log = logging.getLogger("onnxruntime")
ModelSource = Union[str, "os.PathLike[str]", "onnx.ModelProto"]  # noqa: F821


def program() -> str:
    configured = os.environ.get("INLAY_PROGRAM")
    if configured:
        return configured
    for folder in library_folders():
        for above in ("..", os.path.join("..", "..")):  # lib, lib/x86_64-linux-gnu
            path = os.path.normpath(os.path.join(folder, above, "bin", "inlay"))
            if os.access(path, os.X_OK):
                return path
    found = shutil.which("inlay")
    if found is None:
        raise ImportError("onnxruntime: the program inlay, which works on model files, is not installed; install it, "
                          "or set the variable INLAY_PROGRAM to the file")
    return found


def run(*arguments: str) -> str:
    """Runs the program and returns what it prints; its error raises Fail."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = done.stderr.strip().splitlines()
        raise Fail(message[-1] if message else f"inlay {arguments[0]} ended with code {done.returncode}")
    for line in done.stderr.splitlines():
        log.info(line)
    return done.stdout


def run_json(*arguments: str) -> dict:
    return json.loads(run(*arguments, "--json", "--quiet"))


@contextlib.contextmanager
def path_of(model: ModelSource) -> Iterator[str]:
    """The path of a model; one of the package onnx is written to a temporary file."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    if not hasattr(model, "SerializeToString"):
        raise TypeError(f"a model must be a path or an onnx.ModelProto, not {type(model).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        yield path


def external(output: str, wanted: bool) -> List[str]:
    """The arguments for a model with or without a file of external data."""
    return ["--external", os.path.basename(output) + ".data"] if wanted else []


def not_supported(module: str, names: Sequence[str], advice: str) -> dict:
    """Functions with these names that raise NotImplementedError, so that programs can import what they do not call."""
    def make(name):
        def missing(*_arguments, **_options):
            raise NotImplementedError(f"{module}.{name} is not supported by inlay; {advice}")
        missing.__name__ = missing.__qualname__ = name
        missing.__module__ = module
        return missing
    return {name: make(name) for name in names}
