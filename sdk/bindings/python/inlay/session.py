"""Sessions, contexts and reports."""
import _thread
import contextlib
import ctypes
import html
import json
import logging
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import custom
from ._library import (MAP, NONE, OPTIONAL, POWERS, PRIORITIES, RESUME, SEQUENCE, SET_OPTION, SUSPEND, TENSOR, TRIM,
                       ControlRequest, DeviceFn, ExplainOptions, IoInfo, LogFn, ModelInfo, OptimizeArgs, OptionDoc,
                       PlanInfo, ProfileOptions, ProgressFn, ProviderInfo, RunOptions, WriteFn, lib, native,
                       plugins_in_use)
from .errors import DeadlineExceeded, InlayError, InvalidArgument, NotFound, Unsupported, check
from .values import DTYPES, NUMPY, Value, number_of

log = logging.getLogger("inlay")
log.addHandler(logging.NullHandler())  # silent unless the program configures the logger
_KINDS = {TENSOR: "tensor", SEQUENCE: "sequence", OPTIONAL: "optional", MAP: "map"}
_SLOW_NS, _LIMIT_NS = 50_000_000, 100_000_000  # slow runs, and the limit of runs that are expected to be fast
_main_thread = threading.main_thread()  # the thread on which Python handles signals
Feeds = Union[Mapping[str, Any], Iterable[Any]]


# ---------------------------------------------------------------- callbacks that exist as long as the process
@LogFn
def _log(_, level, text):
    log.log((logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)[min(level, 3)], "%s",
            text.decode("utf-8", "replace"))


def _collect(call: Callable, *arguments) -> str:
    """Calls a function whose last parameters are an inlay_write_fn, its user pointer and a diag; returns the text that
    the function writes."""
    pieces: List[bytes] = []
    write = WriteFn(lambda _, text, count: pieces.append(ctypes.string_at(text, count)))
    check(call, *arguments, write, None)
    return b"".join(pieces).decode("utf-8", "replace")


def _choice(name: str, choices: Mapping[str, int], value: str) -> int:
    if value not in choices:
        raise InvalidArgument(f"{name} must be {', '.join(map(repr, choices))}, not {value!r}")
    return choices[value]


def _text(data: Optional[bytes]) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


# ---------------------------------------------------------------- information about sessions
class Info(NamedTuple):
    """An input or output of a model. shape has a size, a symbol name, or None per axis; None: unknown rank."""
    name: str
    kind: str
    dtype: str
    shape: Optional[Tuple[Union[int, str, None], ...]]
    optional: bool
    key_dtype: str = ""  #: of maps and of sequences of maps: "int64" or "string"
    sparse: bool = False  #: the file declares a sparse tensor


def _brief(infos: Tuple[Info, ...]) -> str:
    """Inputs or outputs in a few words."""
    texts = []
    for info in infos[:4]:
        sizes = ["?" if size is None else str(size) for size in info.shape or ()]
        shape = "" if info.shape is None else f"[{', '.join(sizes)}]"
        texts.append(f"{info.name} {'' if info.kind == 'tensor' else info.kind + ' of '}{info.dtype}{shape}")
    return ", ".join(texts + ([f"{len(infos) - 4} more"] if len(infos) > 4 else []))


class Provider(NamedTuple):
    """A provider in use, or a requested provider that is not available for the reason in skipped."""
    name: str
    plugin_path: str
    plugin_version: str
    skipped: Optional[str]


class Model(NamedTuple):
    """Metadata of a model."""
    producer_name: str
    producer_version: str
    domain: str
    graph_name: str
    doc: str
    version: int
    ir_version: int
    metadata: Dict[str, str]


class Device(NamedTuple):
    """A device that a provider could use. Session(**{setting: value}) selects it. unusable: the reason why it cannot be
    used, or ""."""
    provider: str
    name: str
    setting: str
    value: str
    unusable: str
    facts: str
    memory_bytes: int
    free_bytes: int
    kind: str
    unified: bool


class Plan(NamedTuple):
    """The memory and steps of a context: sizes in bytes, and the expected time in seconds."""
    slab_bytes: int
    lower_bound_bytes: int
    constant_bytes: int
    steps: int
    dynamic_steps: int
    expected_s: float


class Report:
    """A report, written in the requested format on demand. str() is the text, which notebooks also display."""

    def __init__(self, write: Callable[[str], str]):
        self._write = write

    def __str__(self) -> str:
        return self._write("text")

    def _repr_pretty_(self, printer, cycle) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def json(self) -> Any:
        return json.loads(self._write("json"))

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes JSON if the name ends in .json, otherwise text."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        if ending == ".html":
            raise Unsupported(f"{path}: save it as .json; `inlay explain --from FILE --html PAGE` makes a page of it, "
                              "or `inlay profile`")
        text = self._write("json" if ending == ".json" else "text")  # may fail: do this before opening the file
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


class Profile(Report):
    """The time of profiled runs, step by step."""

    @property
    def trace(self) -> Any:
        """Chrome trace events, which Perfetto displays."""
        return json.loads(self._write("trace"))

    @property
    def stacks(self) -> str:
        """Folded stacks with nanoseconds, for flame graphs."""
        return self._write("stacks")


def options() -> Dict[str, Tuple[str, str]]:
    """Every option of a session: name -> (default, description)."""
    out, doc = {}, OptionDoc(struct_size=ctypes.sizeof(OptionDoc))
    while lib.options_describe(len(out), ctypes.byref(doc)) == 0:
        out[_text(doc.name)] = (_text(doc.default_value), _text(doc.doc))
    return out


# ---------------------------------------------------------------- options
def _settings(value: Any) -> List[str]:
    """The strings passed to options_set for a value: one, or one per item of a dict."""
    if isinstance(value, bool):
        return ["1" if value else "0"]
    if isinstance(value, Mapping):
        return [f"{k}={v}" for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [",".join(os.fspath(v) if isinstance(v, os.PathLike) else str(v) for v in value)]
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]


class _Options:
    def __init__(self, config, settings, progress):
        handle = ctypes.c_void_p()
        self._failure: Optional[BaseException] = None
        check(lib.options_create, ctypes.byref(handle))
        self.handle = handle.value
        lib.options_set_log(self.handle, _log, None)
        if progress is not None:
            self._progress = ProgressFn(lambda _, fraction, what: self._report(progress, fraction, what))
            lib.options_set_progress(self.handle, self._progress, None)
        try:
            if config is not False:
                check(lib.options_load, self.handle, None)
                if config is not None and config is not True:
                    check(lib.options_load, self.handle, os.fsencode(config))
                check(lib.options_load_environment, self.handle)
            for name, value in settings:
                for text in _settings(value):
                    try:
                        check(lib.options_set, self.handle, name.encode(), text.encode("utf-8", "surrogateescape"))
                    except NotFound as unknown:
                        raise InvalidArgument(str(unknown)) from None
        except BaseException:
            self.close()
            raise

    def _report(self, progress, fraction, what):
        try:
            return 1 if progress(fraction, _text(what)) is False else 0
        except BaseException as failure:  # raised again by the caller that creates the session
            self._failure = failure
            return 1

    def raise_failure(self):
        if self._failure is not None:
            raise self._failure

    def close(self):
        lib.options_destroy(self.handle)


def devices(*, config: Union[bool, str, os.PathLike] = True, **options: Any) -> Tuple[Device, ...]:
    """The devices found by the plugins of sessions with these options; none is opened."""
    found: List[Device] = []
    kinds = ("", "cpu", "gpu", "npu", "other")

    def take(_, info):
        device = info.contents
        found.append(Device(_text(device.provider), _text(device.name), _text(device.setting), _text(device.value),
                            _text(device.unusable), _text(device.facts), device.memory_bytes, device.free_bytes,
                            kinds[device.kind] if device.kind < 5 else "", device.unified != 0))

    made = _Options(config, list(options.items()), None)
    try:
        with plugins_in_use:
            check(lib.device_list, made.handle, DeviceFn(take), None)
    finally:
        made.close()
    return tuple(found)


# ---------------------------------------------------------------- running
def _converted(info: "Info", data: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """The array in the type of the input, by the rule of host/runtime/base/element.h: to floats, numbers are rounded to
    the nearest, and a finite one must stay finite; to integers, every element must have an equal there."""
    with np.errstate(all="ignore"):
        made = np.asarray(data).astype(wanted)
        if wanted.kind == "f":
            good = ~np.isinf(made) | (np.isinf(data) if data.dtype.kind == "f" else False)
        else:
            # Back in the type of the array: a number beyond the range, or a fraction, is another one then. Signs are
            # compared because integers wrap.
            good = (made.astype(data.dtype) == data) & ((made < 0) == (data < 0))
        if wanted.kind in "iu" and data.dtype.kind == "f":  # the conversion of what is out of range is not defined
            wide = data.astype(np.float64)  # numpy 2 rounds the limits to the array's type: in float16, infinity
            good &= (wide >= float(np.iinfo(wanted).min)) & (wide < float(np.iinfo(wanted).max) + 1)
    if not np.all(good):
        at = int(np.argmin(np.asarray(good).reshape(-1)))
        what = "too large" if wanted.kind == "f" else "not exact"
        raise InvalidArgument(f"input '{info.name}' is {info.dtype}, in which element {at} of the {data.dtype} array, "
                              f"{np.asarray(data).reshape(-1)[at]}, is {what}; convert it: "
                              f"array.astype(numpy.{wanted.name})")
    return made


class Cancel:
    """Stops the runs to which it was passed: ``cancel.set()``, from any thread."""

    def __init__(self):
        self._flag = ctypes.c_uint32(0)

    def set(self) -> None:
        self._flag.value = 1

    def clear(self) -> None:
        self._flag.value = 0

    def is_set(self) -> bool:
        return self._flag.value != 0

    def __repr__(self) -> str:
        return f"<inlay.Cancel, {'set' if self.is_set() else 'not set'}>"


def _run_options(timeout: Optional[float], cancel: Optional[Cancel], max_threads: int, priority: str,
                 power: str, deadline: Optional[float]) -> Optional[RunOptions]:
    """The options of a run; None: the defaults."""
    if (timeout is None and cancel is None and max_threads == 0 and priority == "normal" and power == "default"
            and deadline is None):
        return None
    how = RunOptions(struct_size=ctypes.sizeof(RunOptions), max_threads=max_threads,
                     priority=_choice("priority", PRIORITIES, priority), power=_choice("power", POWERS, power))
    if timeout is not None:
        how.timeout_ns = max(1, int(timeout * 1e9))
    if deadline is not None:
        how.deadline_ns = max(1, int(deadline * 1e9))
    if cancel is not None:
        how.cancel = ctypes.pointer(cancel._flag)
    return how


class Context:
    """Runs a session on one thread at a time. A run with the same sizes as the run before allocates only outputs."""

    def __init__(self, session: "Session"):
        handle = ctypes.c_void_p()
        check(lib.context_create, session._open(), ctypes.byref(handle))
        self._session, self._handle = session, handle.value
        self._bound: List[Value] = []
        self._bindings: List[Tuple[Callable, int]] = []  # functions that bind, and indices
        self._slow = True  # the last run was, or there was none
        self._runner = None
        if native is not None:
            self._runner = native.Runner(self._handle, session._plain, session._output_names, session._interruptible)
        session._contexts.add(self)

    def close(self) -> None:
        handle, self._handle, self._runner = self._handle, None, None
        if handle is not None:
            lib.context_destroy(handle)
            self._bound, self._bindings = [], []
            self._session._contexts.discard(self)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("a context cannot be pickled or copied; its session can")

    def __repr__(self) -> str:
        return "<inlay.Context, closed>" if self._handle is None else f"<inlay.Context of {self._session!r}>"

    def _open(self):
        if self._handle is None:
            raise InvalidArgument("this context is closed")
        return self._handle

    def run(self, feeds: Feeds, outputs: Optional[Mapping[str, Any]] = None, *, timeout: Optional[float] = None,
            cancel: Optional[Cancel] = None, max_threads: int = 0, priority: str = "normal",
            power: str = "default", deadline: Optional[float] = None) -> Dict[str, Value]:
        """Runs the model. feeds: by name, or in the order of the inputs. outputs: arrays or tensors that receive
        results if type and shape match. timeout: seconds. max_threads: at most intra_threads of the session; 0:
        intra_threads. priority ("low", "normal", "high") and power ("default", "efficiency", "performance"): hints to
        devices; "normal" and "default": as the session's options say. deadline: the time, by time.monotonic(), at which
        the result is needed: with option ladder the run uses the most exact variant that is expected to end by then.
        Returns the outputs by name."""
        self._open()
        how = _run_options(timeout, cancel, max_threads, priority, power, deadline)
        if self._runner is not None and not outputs:
            return self._runner.run(self, feeds, None if how is None else ctypes.addressof(how), None, False)
        try:
            self._bind(feeds, outputs)
            self._run_bound(how)
            return self._results()
        finally:
            self._unbind()  # the context must not keep memory of Python

    def _fed(self, feeds: Feeds) -> List[Tuple[str, Any]]:
        return self._session._named(feeds)

    def _value(self, name: str, data: Any) -> Tuple[int, Value]:
        """The index of an input, and its value."""
        index, info = self._session._input(name)
        return index, self._session._value(info, data)

    def _bind(self, feeds: Feeds, outputs: Optional[Mapping[str, Any]], kept: bool = False) -> None:
        """kept: runs read the arrays themselves, later, so that they must have the types of the inputs."""
        for name, data in self._fed(feeds):
            info = self._session._input(name)[1]
            wanted = NUMPY.get(info.dtype) if kept and isinstance(data, np.ndarray) else None
            if wanted not in (None, object) and data.dtype != wanted and data.dtype.kind in "biuf":
                raise InvalidArgument(f"input '{name}' is {info.dtype}; the array to bind has type {data.dtype}; convert it "
                                      f"before: array.astype(numpy.{np.dtype(wanted).name})")
            self._bind_one(lib.context_set_input, *self._value(name, data))
        for name, data in (outputs or {}).items():
            self._bind_one(lib.context_set_output, self._session._output_index(name), Value.of(data))

    def _bind_one(self, bind, index, value):
        check(bind, self._handle, index, value._handle)
        self._bound.append(value)
        self._bindings.append((bind, index))

    def _unbind(self) -> None:
        for bind, index in self._bindings:
            bind(self._handle, index, None, None)
        self._bound, self._bindings = [], []

    def _run_bound(self, how: Optional[RunOptions]) -> None:
        """Runs; native/runner.c does the same."""
        if self._runner is not None:
            self._runner.run_bound(self, None if how is None else ctypes.addressof(how))
            return
        how = how or RunOptions(struct_size=ctypes.sizeof(RunOptions))
        given_ns = how.timeout_ns
        if not self._session._interruptible or threading.get_ident() != _main_thread.ident:
            check(lib.context_run, self._handle, ctypes.byref(how))
            return
        if not self._slow:
            start = time.monotonic_ns()
            how.timeout_ns = min(given_ns or _LIMIT_NS, _LIMIT_NS)
            try:
                check(lib.context_run, self._handle, ctypes.byref(how))
                self._slow = time.monotonic_ns() - start >= _SLOW_NS
                return
            except DeadlineExceeded:
                if 0 < given_ns <= _LIMIT_NS:
                    raise
                how.timeout_ns = given_ns and given_ns - _LIMIT_NS
        self._slow = self._run_interruptibly(ctypes.addressof(how))

    def _run_interruptibly(self, options: int) -> bool:
        """Runs on another thread, while this one, the main thread, handles signals: an exception of a handler, such as
        KeyboardInterrupt, cancels the run and is raised when the run has ended. options: address of a RunOptions.
        Returns whether the run was slow."""
        how = RunOptions.from_address(options)
        flag = how.cancel.contents if how.cancel else ctypes.c_uint32(0)
        how.cancel = ctypes.pointer(flag)
        begun, ended = threading.Lock(), threading.Lock()
        outcome: List[Any] = []
        ended.acquire()

        def work():
            if not begun.acquire(blocking=False):
                outcome.append(None)  # interrupted before
                return
            failure, start = None, time.monotonic_ns()
            try:
                check(lib.context_run, self._handle, ctypes.byref(how))
            except BaseException as error:  # raised on the main thread
                failure = error
            outcome.append((failure, time.monotonic_ns() - start >= _SLOW_NS))
            ended.release()

        try:
            try:
                _thread.start_new_thread(work, ())
            except RuntimeError:  # the interpreter is ending
                work()
            # A signal that arrives just before the wait does not end it: look again.
            while not ended.acquire(timeout=0.1):
                pass
        except BaseException:
            before, never_begins = flag.value, False
            while not outcome and not never_begins:
                try:
                    flag.value = 1
                    never_begins = begun.acquire(blocking=False)
                    if not never_begins:
                        ended.acquire(timeout=0.1)
                except BaseException:  # another signal: the run has to end first
                    pass
            flag.value = before
            raise
        failure, slow = outcome[-1]
        if failure is not None:
            raise failure
        return slow

    def _results(self) -> Dict[str, Value]:
        return {name: self._result(i, self._bound) for i, name in enumerate(self._session._output_names)}

    def _result(self, index: int, owners: List[Any]) -> Value:
        """An output of the last run. owners: the inputs, and the owners of memory that the caller gave."""
        handle = lib.context_output(self._handle, index)
        if not handle:
            raise InlayError(f"output {index} does not exist after the run")
        value = Value(lib.value_ref(handle))
        address = lib.value_data(handle) if lib.value_kind(handle) == TENSOR else None
        if address is None:
            value._keep = list(owners)
            return value
        for bound in self._bound:  # an output may be an input, or use memory given by the caller
            start = lib.value_data(bound._handle) if lib.value_kind(bound._handle) == TENSOR else None
            if start and start <= address < start + max(lib.value_bytes(bound._handle), 1):
                value._keep = bound
        return value

    def profile(self, max_events: int = 0) -> "Profiling":
        """``with context.profile() as p: context.run(...)``; p.profile has the times of the runs."""
        return Profiling(self, max_events)

    def measure(self, on: bool = True) -> None:
        """Measures the time of each step of later runs, for ``Session.explain(measured=context)``."""
        check(lib.context_measure, self._open(), 1 if on else 0)

    def trim(self) -> None:
        """Gives memory back to the system that runs have left behind, the outputs of the last run included. Values that
        are still referenced, states and bound values stay; the next run prepares its input sizes again."""
        check(lib.context_trim, self._open())

    @property
    def variant(self) -> Optional[Tuple[str, Optional[float]]]:
        """The variant of a model package that the last run used, and the error that the package states for it; None: the
        model is not of a package."""
        error = ctypes.c_double()
        name = lib.context_variant(self._open(), ctypes.byref(error))
        return None if name is None else (name.decode(), error.value if error.value >= 0 else None)

    @property
    def plan(self) -> Plan:
        info = PlanInfo(struct_size=ctypes.sizeof(PlanInfo))
        lib.context_plan(self._open(), ctypes.byref(info))
        return Plan(info.slab_bytes, info.lower_bound_bytes, info.constant_bytes, info.step_count,
                    info.dynamic_step_count, info.predicted_ns * 1e-9)


class Profiling:
    """Profiles the runs of a context in a ``with`` statement; see Context.profile."""

    def __init__(self, context, max_events):
        self._context, self._max_events = context, max_events
        self._kept: Dict[str, str] = {}

    def __enter__(self) -> "Profiling":
        check(lib.context_profile, self._context._open(), 1, self._max_events)
        return self

    def __exit__(self, failure, *_) -> None:
        handle = self._context._open()
        try:
            for format in ("text", "json", "trace", "stacks"):
                how = ProfileOptions(struct_size=ctypes.sizeof(ProfileOptions), format=format.encode())
                self._kept[format] = _collect(lib.context_profile_write, handle, ctypes.byref(how))
        except InlayError:
            self._kept.clear()
            if failure is None:  # otherwise the error of the with statement is raised
                raise
        finally:
            lib.context_profile(handle, 0, 0, None)

    @property
    def profile(self) -> Profile:
        if not self._kept:
            raise InvalidArgument("the profile is available after the with statement")
        return Profile(self._kept.__getitem__)


def _find_main_thread() -> None:
    """In a child of os.fork() the main thread is the one that called it."""
    global _main_thread
    _main_thread = threading.main_thread()
    if native is not None:
        native.set_main_thread(_main_thread.ident)


_find_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_main_thread)


class Binding:
    """Inputs and outputs of a session that are bound once for many runs; see Session.bind."""

    def __init__(self, session: "Session", feeds: Feeds, outputs: Optional[Mapping[str, Any]]):
        self._context = Context(session)
        try:
            self._context._bind(feeds, outputs, kept=True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._context.close()

    def __del__(self):
        if hasattr(self, "_context"):
            self.close()

    def __enter__(self) -> "Binding":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("a binding cannot be pickled or copied; its session can")

    def __repr__(self) -> str:
        return repr(self._context).replace("Context", "Binding", 1)

    def run(self, *, timeout: Optional[float] = None, cancel: Optional[Cancel] = None, max_threads: int = 0,
            priority: str = "normal", power: str = "default",
            deadline: Optional[float] = None) -> None:
        """Runs the model on the present contents of the bound arrays. The arguments are those of Context.run."""
        context = self._context
        context._open()
        context._run_bound(_run_options(timeout, cancel, max_threads, priority, power, deadline))

    def outputs(self) -> Dict[str, Value]:
        """The outputs of the last run by name. A bound output is the memory that the caller gave; the others keep their
        contents in later runs."""
        self._context._open()
        return self._context._results()


def _settings_of(providers, provider_options, options):
    """Settings as pairs, from the arguments of Session and optimize()."""
    settings = list(options.items())
    if providers is not None:
        settings.append(("providers", [providers] if isinstance(providers, str) else list(providers)))
    for name, values in (provider_options or {}).items():
        settings += [(f"{name}.{key}", value) for key, value in values.items()]
    return settings


def optimize(model: Union[str, os.PathLike], out: Union[str, os.PathLike], *, external_file: Optional[str] = None,
             providers: Optional[Iterable[str]] = None,
             provider_options: Optional[Mapping[str, Mapping[str, Any]]] = None,
             config: Union[bool, str, os.PathLike] = True, **options: Any) -> None:
    """Writes the model at path `model`, optimised, to `out`, as `inlay optimize` does. Large tensors are written to
    external_file in the same folder, if that is given. The other arguments are those of Session."""
    made = _Options(config, _settings_of(providers, provider_options, options), None)
    args = OptimizeArgs(struct_size=ctypes.sizeof(OptimizeArgs), out_path=os.fsencode(out),
                        external_file=None if external_file is None else os.fsencode(external_file))
    try:
        with plugins_in_use:
            check(lib.optimize, os.fsencode(model), made.handle, ctypes.byref(args))
    finally:
        made.close()


def _open_session(model, providers, provider_options, config, options) -> "Session":
    return Session(model, providers, provider_options=provider_options, config=config, **options)


class Session:
    """A model, loaded, optimised, assigned to providers, and compiled.

    model: a path, the bytes of a file, or onnx's ModelProto. providers: names, the most preferred first; None: as
    configured. config: True: inlay.yaml in the standard places and the environment variables INLAY_* are read, as on
    the command line; a path: that file is read, too; False: only the arguments are used. progress: called with a fraction and a phrase
    while the session is created; returning False cancels. options: those of ``inlay.options()``, by name:
    ``intra_threads=2``, ``precision="strict"``, ``dim={"batch": 4}``. Options of a provider are given in
    provider_options: ``{"cpu": {"winograd": False}}``.

    A session may be used by any number of threads. ``run`` keeps a context for each concurrent run. After a fork
    (``multiprocessing``) the child may use the session, too, unless it uses a device or another thread was using it:
    then ``run`` raises an error, and the child has to create a session."""

    def __init__(self, model: Union[str, os.PathLike, bytes, bytearray, memoryview],
                 providers: Optional[Iterable[str]] = None, *,
                 provider_options: Optional[Mapping[str, Mapping[str, Any]]] = None,
                 config: Union[bool, str, os.PathLike] = True,
                 progress: Optional[Callable[[float, str], Any]] = None, **options: Any):
        self._handle: Optional[int] = None
        self._contexts: set = set()
        self._idle: List[Context] = []  # used by pop() and append() alone, which are atomic
        if hasattr(model, "SerializeToString"):
            model = model.SerializeToString()
        if providers is not None and not isinstance(providers, str):
            providers = list(providers)
        compiled_before = custom.latest_compiled()
        made = _Options(config, _settings_of(providers, provider_options, options), progress)
        handle = ctypes.c_void_p()
        try:
            if isinstance(model, (bytes, bytearray, memoryview)):
                self._bytes = bytes(model)  # must exist as long as the session
                with plugins_in_use:
                    check(lib.session_create_from_bytes, self._bytes, len(self._bytes), made.handle, ctypes.byref(handle))
            else:
                model = os.path.abspath(os.fspath(model))
                with plugins_in_use:
                    check(lib.session_create, os.fsencode(model), made.handle, ctypes.byref(handle))
        except InlayError:
            made.raise_failure()
            raise
        finally:
            made.close()
        self._handle = handle.value
        self._arguments = (model, providers, provider_options, config, options)
        self.inputs: Tuple[Info, ...] = self._describe(lib.session_input_count, lib.session_input)
        self.outputs: Tuple[Info, ...] = self._describe(lib.session_output_count, lib.session_output)
        self._by_name = {info.name: (i, info) for i, info in enumerate(self.inputs)}
        self._plain = {info.name: number_of(info.dtype) << 32 | i  # take arrays of this type as they are
                       for i, info in enumerate(self.inputs)
                       if info.kind == "tensor" and NUMPY.get(info.dtype) is not None}
        self._output_names = tuple(info.name for info in self.outputs)
        # Operators written in Python run on the thread of the caller, and handle signals there.
        self._interruptible = custom.latest_compiled() == compiled_before

    def __reduce__(self):
        """For pickle: the path of the model, or its bytes, and the options, with which the reader creates a session."""
        self._open()
        return _open_session, self._arguments

    def __repr__(self) -> str:
        if self._handle is None:
            return "<inlay.Session, closed>"
        model = self._arguments[0]
        name = f"of {len(model)} bytes" if isinstance(model, (bytes, bytearray, memoryview)) else os.fsdecode(model)
        return f"<inlay.Session {name}: {_brief(self.inputs)} -> {_brief(self.outputs)}>"

    # ------------------------------------------------------------ creation and release
    def close(self) -> None:
        """Frees the session and its contexts; outputs remain valid. Must not be called during a run."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        for context in list(self._contexts):
            context.close()
        self._idle = []
        plugins_in_use.destroy(lib.session_destroy, handle, getattr(self, "_bytes", None))

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _open(self):
        if self._handle is None:
            raise InvalidArgument("this session is closed")
        return self._handle

    # ------------------------------------------------------------ information
    def _describe(self, count, fill):
        out = []
        for i in range(count(self._handle)):
            info = IoInfo(struct_size=ctypes.sizeof(IoInfo))
            fill(self._handle, i, ctypes.byref(info))
            shape = None
            if info.declared_rank != NONE and info.kind == TENSOR:
                shape = tuple(info.declared_dims[d] if info.declared_dims[d] >= 0
                              else _text(info.declared_dim_names[d]) or None for d in range(info.declared_rank))
            out.append(Info(_text(info.name), _KINDS.get(info.kind, "tensor"),
                            DTYPES.get(info.dtype, ("undefined",))[0], shape, bool(info.optional),
                            DTYPES[info.key_dtype][0] if info.key_dtype else "", bool(info.sparse)))
        return tuple(out)

    @property
    def model(self) -> Model:
        info = ModelInfo(struct_size=ctypes.sizeof(ModelInfo))
        lib.session_model(self._open(), ctypes.byref(info))
        metadata = {}
        key, value = ctypes.c_char_p(), ctypes.c_char_p()
        for i in range(info.metadata_count):
            lib.session_metadata(self._handle, i, ctypes.byref(key), ctypes.byref(value))
            metadata[_text(key.value)] = _text(value.value)
        return Model(_text(info.producer_name), _text(info.producer_version), _text(info.domain),
                     _text(info.graph_name), _text(info.doc), info.model_version, info.ir_version, metadata)

    @property
    def providers(self) -> Tuple[Provider, ...]:
        out: List[Provider] = []
        info = ProviderInfo(struct_size=ctypes.sizeof(ProviderInfo))
        while lib.session_provider(self._open(), len(out), ctypes.byref(info)) == 0:
            out.append(Provider(_text(info.name), _text(info.plugin_path), _text(info.plugin_version),
                                None if info.skipped is None else _text(info.skipped)))
        return tuple(out)

    def explain(self, *, all: bool = False, kernels: bool = False, node: Optional[str] = None,
                what_if: Iterable[str] = (), columns: int = 0, measured: Optional[Context] = None) -> Report:
        """Reports which provider runs each node, and why, as ``inlay explain`` does."""
        changes = [change.encode() for change in what_if]

        def write(format):
            how = ExplainOptions(struct_size=ctypes.sizeof(ExplainOptions), format=format.encode(),
                                 flags=(1 if all else 0) | (2 if kernels else 0), columns=columns,
                                 node=None if node is None else node.encode(),
                                 what_ifs=(ctypes.c_char_p * max(len(changes), 1))(*changes),
                                 what_if_count=len(changes), measured=None if measured is None else measured._open())
            return _collect(lib.session_explain, self._open(), ctypes.byref(how))

        return Report(write)

    def save_plan(self, path: Union[str, os.PathLike]) -> None:
        """Writes which provider runs each node; the option ``plan`` makes a later session use it."""
        text = _collect(lib.session_plan_save, self._open())  # may fail: do this before opening the file
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def update(self, weights: Mapping[str, Any]) -> None:
        """Replaces weights, by their names in the model's file, by other values of the same type and shape: all of
        them, or none if it raises. Runs in progress finish on the old weights; later ones, in any thread, use the new
        ones."""
        values = {name: Value.of(data) for name, data in weights.items()}
        count = len(values)
        check(lib.session_update, self._open(), count, (ctypes.c_char_p * count)(*(name.encode() for name in values)),
              (ctypes.c_void_p * count)(*(value._handle for value in values.values())))

    # ------------------------------------------------------------ open providers
    def _control(self, action: int, provider: str, option: Optional[str] = None, value: Any = None,
                 unused: int = 0) -> int:
        request = ControlRequest(struct_size=ctypes.sizeof(ControlRequest), action=action, provider=provider.encode(),
                                 option=None if option is None else option.encode(),
                                 value=None if value is None else _settings(value)[0].encode(), bytes=unused)
        check(lib.session_control, self._open(), ctypes.byref(request))
        return request.freed_bytes

    def set_option(self, provider: str, option: str, value: Any = None) -> None:
        """Changes an option of an open provider; None: the default. Sessions that share the provider see it, too."""
        self._control(SET_OPTION, provider, option, value)

    def trim(self, provider: Optional[str] = None, unused_bytes: int = 0) -> int:
        """Releases unused memory of a provider, of which unused_bytes may stay. Returns the bytes that were released.
        Without a provider: gives memory back to the system that runs have left behind, in contexts that do not run and
        in all providers; the next run prepares its input sizes again. Returns 0."""
        if provider is None:
            check(lib.session_trim, self._open())
            return 0
        return self._control(TRIM, provider, unused=unused_bytes)

    def suspend(self, provider: str) -> None:
        """Waits for the runs in progress, then lets the provider give up memory and power; until resume() its sessions
        cannot run (Busy)."""
        self._control(SUSPEND, provider)

    def resume(self, provider: str) -> None:
        self._control(RESUME, provider)

    @property
    def input_names(self) -> Tuple[str, ...]:
        return tuple(info.name for info in self.inputs)

    @property
    def output_names(self) -> Tuple[str, ...]:
        return self._output_names

    # ------------------------------------------------------------ feeds
    def _named(self, feeds):
        if isinstance(feeds, Mapping):
            return list(feeds.items())
        if hasattr(feeds, "columns") and hasattr(feeds, "to_numpy"):
            return self._columns(feeds)
        if isinstance(feeds, (str, bytes, np.ndarray)):
            raise TypeError("feeds must be a dict of names, or a list with a value for each input")
        feeds = list(feeds)
        if len(feeds) > len(self.inputs):
            raise InvalidArgument(f"{len(feeds)} values for {len(self.inputs)} inputs")
        return [(info.name, data) for info, data in zip(self.inputs, feeds)]

    def _columns(self, table):
        """A DataFrame as feeds: for each input the column of its name, as one column if the input has two axes."""
        names = list(table.columns)
        feeds = []
        for info in self.inputs:
            if names.count(info.name) != 1:
                if info.name not in names and info.optional:
                    continue
                found = "several columns" if info.name in names else "no column"
                raise InvalidArgument(f"the table has {found} named '{info.name}' for the input; it has "
                                      f"{', '.join(map(str, names))}; to pass all of it for one input: "
                                      f"{{'{info.name}': table}}")
            column = table[info.name].to_numpy()
            feeds.append((info.name, column.reshape(-1, 1) if info.shape is not None and len(info.shape) == 2
                          else column))
        return feeds

    def _input(self, name):
        if name not in self._by_name:
            raise InvalidArgument(f"the model has no input '{name}'; its inputs are "
                                  f"{', '.join(info.name for info in self.inputs) or 'none'}")
        return self._by_name[name]

    def _output_index(self, name):
        for i, info in enumerate(self.outputs):
            if info.name == name:
                return i
        raise InvalidArgument(f"the model has no output '{name}'; its outputs are "
                              f"{', '.join(output.name for output in self.outputs)}")

    @staticmethod
    def _value(info, data):
        if isinstance(data, Value):
            return data
        if info.kind == "map" and isinstance(data, Mapping):
            return Value.map_of(data, info.dtype, info.key_dtype)
        if info.kind == "sequence" and info.key_dtype and isinstance(data, (list, tuple)):
            return Value.list_of([item if isinstance(item, Value) else Value.map_of(item, info.dtype, info.key_dtype)
                                  for item in data], dtype=info.dtype)
        if info.kind == "sequence" and isinstance(data, (list, tuple)):
            return Value.list_of(data, dtype=info.dtype if not data else None)
        if info.kind == "optional":
            items = [] if data is None else [Value.list_of(data) if isinstance(data, (list, tuple)) else data]
            return Value.list_of(items, dtype=info.dtype, kind=OPTIONAL)
        if not isinstance(data, np.ndarray) and hasattr(data, "to_numpy"):  # a DataFrame or one of its columns
            data = data.to_numpy()
        if isinstance(data, (list, tuple, int, float, bool, complex)):  # the model determines the type of numbers
            data = np.asarray(data)
            if data.dtype.kind not in "biuf" or info.kind != "tensor" or NUMPY.get(info.dtype) in (None, object):
                return Value.of(data, None if info.dtype == "string" else info.dtype)
        if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biuf" and info.kind == "tensor":
            wanted = NUMPY.get(info.dtype)
            if wanted is not None and wanted is not object and data.dtype != wanted:
                return Value.of(_converted(info, data, np.dtype(wanted)))
        if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind not in "OUS":
            return Value.of(data, info.dtype if NUMPY.get(info.dtype) is None and info.dtype != "string" else None)
        return Value.of(data)

    # ------------------------------------------------------------ runs
    def context(self) -> Context:
        """A separate context, for a thread that runs many times, or for outputs that are not converted to numpy."""
        return Context(self)

    def bind(self, feeds: Feeds, outputs: Optional[Mapping[str, Any]] = None) -> Binding:
        """Binds inputs, and arrays that receive outputs, for many runs, which cost less than those of ``run``:

            with session.bind({"x": x}, {"y": y}) as binding:
                x[...] = ...
                binding.run()  # y has the result

        The arguments are those of Context.run. A binding is for one thread at a time."""
        return Binding(self, feeds, outputs)

    def _take_context(self) -> Context:
        try:
            return self._idle.pop()
        except IndexError:
            return Context(self)

    def _give_context(self, context: Context) -> None:
        if self._handle is not None:
            self._idle.append(context)

    @contextlib.contextmanager
    def borrow_context(self) -> Iterator[Context]:
        """A context for exclusive use in a with statement, which is kept for later runs."""
        context = self._take_context()
        try:
            yield context
        finally:
            self._give_context(context)

    def run(self, feeds: Feeds, outputs: Optional[Iterable[str]] = None, *, timeout: Optional[float] = None,
            cancel: Optional[Cancel] = None, max_threads: int = 0, priority: str = "normal",
            power: str = "default", deadline: Optional[float] = None) -> Dict[str, Any]:
        """Runs the model and returns all outputs, or the named ones, as numpy arrays (lists of them for sequences,
        dicts for maps). feeds: by name or in order: numpy arrays, torch tensors, numbers, strings, dicts,
        DataFrames; or one DataFrame, whose columns have the names of the inputs. Numbers of another type are converted:
        to floats they are rounded, to integers they must be exact. The other arguments are those of Context.run."""
        wanted = None if outputs is None else tuple(self._output_index(name) for name in outputs)
        how = _run_options(timeout, cancel, max_threads, priority, power, deadline)
        context = self._take_context()
        try:
            if context._runner is not None:
                return context._runner.run(context, feeds, None if how is None else ctypes.addressof(how), wanted, True)
            try:
                context._bind(feeds, None)
                context._run_bound(how)
                return {self._output_names[i]: context._result(i, context._bound).to_python()
                        for i in (range(len(self._output_names)) if wanted is None else wanted)}
            finally:
                context._unbind()
        finally:
            self._give_context(context)

    def __call__(self, *feeds: Any, **named: Any) -> Dict[str, Any]:
        return self.run(dict(zip((info.name for info in self.inputs), feeds), **named))
