"""Texts of language models: inlay/text.h.

    model = inlay.TextModel("model.gguf", intra_threads=4)
    for piece in model.generate("The capital of France is", max_tokens=20):
        print(piece, end="", flush=True)
"""
import asyncio
import ctypes
import json
import os
import threading
import warnings
import weakref
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, AsyncIterator, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library
from ._library import Diag, plugins_in_use
from .errors import InvalidArgument, Unsupported, check
from .session import _Options

RENDERED, IGNORE_ENDS, OPEN = 1, 2, 0xFFFFFFFF  # INLAY_TEXT_*; INLAY_NONE
_REASONS = ("running", "stop", "length", "stopped", "failed")  # INLAY_TEXT_RUNS ...


class _ModelOptions(Structure):
    _fields_ = [("struct_size", c_uint64), ("options", c_void_p), ("variant", c_char_p), ("tokenizer", c_char_p),
                ("draft", c_char_p), ("kv_memory", c_uint64), ("max_texts", c_uint32), ("draft_tokens", c_uint32),
                ("lookup_tokens", c_uint32), ("context", c_uint32)]


class _ModelInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("session", c_void_p), ("ends", POINTER(c_int64)), ("vocabulary", c_uint64),
                ("context", c_uint64), ("guessed_tokens", c_uint64), ("right_tokens", c_uint64), ("runs", c_uint64),
                ("end_count", c_uint32), ("has_template", c_uint32), ("assumes_chat_ml", c_uint32),
                ("together", c_uint32), ("embeds", c_uint32), ("adapter_count", c_uint32), ("warning", c_char_p)]


class _Chat(Structure):
    _fields_ = [("struct_size", c_uint64), ("messages", c_void_p), ("message_count", c_uint64), ("json", c_char_p),
                ("tools", c_char_p), ("variables", c_char_p)]


class _Request(Structure):
    _fields_ = [("struct_size", c_uint64), ("prompt", c_char_p), ("tokens", POINTER(c_int64)),
                ("token_count", c_uint64), ("stops", POINTER(c_char_p)), ("schema", c_char_p), ("grammar", c_char_p),
                ("seed", c_uint64), ("stop_count", c_uint32), ("max_tokens", c_uint32), ("flags", c_uint32),
                ("top_k", c_int32), ("temperature", c_float), ("top_p", c_float), ("min_p", c_float),
                ("repetition_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("adapter", c_char_p), ("images", c_void_p), ("image_count", c_uint64), ("typical_p", c_float),
                ("no_repeat_ngram_size", c_uint32), ("min_tokens", c_uint32), ("reserved", c_uint32)]


class _Info(Structure):
    _fields_ = [("struct_size", c_uint64), ("tokens", POINTER(c_int64)), ("prompt_tokens", c_uint64),
                ("generated_tokens", c_uint64), ("reused_tokens", c_uint64), ("state", c_uint32),
                ("reserved", c_uint32)]


_OUT, _DIAG, _SIZE = POINTER(c_void_p), POINTER(Diag), POINTER(c_size_t)
_PROTOTYPES = {
    "model_create": (c_int32, [c_char_p, POINTER(_ModelOptions), _OUT, _DIAG]),
    "model_destroy": (None, [c_void_p]),
    "model_describe": (c_int32, [c_void_p, POINTER(_ModelInfo)]),
    "model_tokenize": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, POINTER(c_int64), c_size_t, _SIZE, _DIAG]),
    "model_detokenize": (c_int32, [c_void_p, POINTER(c_int64), c_size_t, c_char_p, c_size_t, _SIZE, _DIAG]),
    "model_chat": (c_int32, [c_void_p, POINTER(_Chat), c_char_p, c_size_t, _SIZE, _DIAG]),
    "model_embed": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(POINTER(c_float)), _SIZE, _DIAG]),
    "model_step": (c_uint32, [c_void_p]),
    "create": (c_int32, [c_void_p, POINTER(_Request), _OUT, _DIAG]),
    "destroy": (None, [c_void_p]),
    "take": (c_int32, [c_void_p, POINTER(c_void_p), _SIZE, _DIAG]),
    "stop": (None, [c_void_p]),
    "describe": (c_int32, [c_void_p, POINTER(_Info)]),
}


class _Functions:
    """The functions of text.h without their prefix inlay_text_. The library is libinlay-text.so.1 in the folder of
    libinlay.so.1, or else the one that the dynamic loader finds."""

    def __init__(self):
        path = os.path.join(_library.folder() or "", "libinlay-text.so.1")
        try:
            library = ctypes.CDLL(path if os.path.exists(path) else "libinlay-text.so.1")
        except OSError as error:
            raise Unsupported(f"inlay: texts need libinlay-text.so.1: {error}") from None
        for name, (result, arguments) in _PROTOTYPES.items():
            function = library["inlay_text_" + name]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


_lib: Optional[_Functions] = None


def _functions() -> _Functions:
    global _lib
    if _lib is None:
        _lib = _Functions()
    return _lib


def _encoded(text: Optional[str], name: str) -> Optional[bytes]:
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} must be a str, not {type(text).__name__}")
    data = text.encode("utf-8", "surrogatepass")
    if b"\0" in data:
        raise InvalidArgument(f"{name} has a NUL at byte {data.index(0)}")
    return data


def _json(value: Any) -> Optional[bytes]:
    """JSON as a text, or a value to be written as JSON."""
    return None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()


def _path(path: Any) -> Optional[bytes]:
    return None if path is None else os.fsencode(path)


class TextUsage(NamedTuple):
    """Numbers of tokens of a text, and why it has ended: "stop", "length", "stopped", "failed"; "running" before."""
    prompt_tokens: int
    generated_tokens: int
    reused_tokens: int
    reason: str


class Text:
    """A text in progress: an iterator of its pieces, of type str, also by ``async for``. Several texts of a model share
    runs, whichever of them is iterated. str() is the whole text: it waits for the end."""

    def __init__(self, model: "TextModel", request: _Request):
        self._model, self._handle = model, None
        handle = c_void_p()
        with model._lock:
            check(_functions().create, model._open(), ctypes.byref(request), ctypes.byref(handle))
            self._handle = handle.value
            model._texts.add(self)
        self._pieces: List[str] = []

    def _step(self) -> Optional[str]:
        """The next piece; None: the text has ended."""
        lib, piece, size = _functions(), c_void_p(), c_size_t()
        while True:
            with self._model._lock:
                if self._handle is None:
                    return None
                state = self._info().state
                check(lib.take, self._handle, ctypes.byref(piece), ctypes.byref(size))
                if size.value > 0:
                    self._pieces.append(ctypes.string_at(piece.value, size.value).decode())
                    return self._pieces[-1]
                if state != 0:
                    return None
                lib.model_step(self._model._handle)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = self._step()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        piece = await asyncio.get_running_loop().run_in_executor(None, self._step)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def __str__(self) -> str:
        for _ in self:
            pass
        return "".join(self._pieces)

    def _info(self) -> _Info:
        if self._handle is None:
            raise InvalidArgument("this text is closed")
        info = _Info(struct_size=ctypes.sizeof(_Info))
        _functions().describe(self._handle, ctypes.byref(info))
        return info

    @property
    def tokens(self) -> List[int]:
        """The tokens that were generated so far."""
        with self._model._lock:
            info = self._info()
            return info.tokens[info.prompt_tokens:info.prompt_tokens + info.generated_tokens]

    @property
    def usage(self) -> TextUsage:
        with self._model._lock:
            info = self._info()
            return TextUsage(info.prompt_tokens, info.generated_tokens, info.reused_tokens, _REASONS[info.state])

    def stop(self) -> None:
        """Ends the text with the next step; from any thread."""
        with self._model._lock:
            if self._handle is not None:
                _functions().stop(self._handle)

    def close(self) -> None:
        """Frees the text, which ends if it is in progress."""
        with self._model._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                _functions().destroy(handle)

    def __del__(self):
        if self._handle is not None:
            self.close()

    def __enter__(self) -> "Text":
        return self

    def __exit__(self, *_) -> None:
        self.close()


class TextModel:
    """A language model with its tokenizer: an ONNX file, a GGUF file, or a folder as Hugging Face publishes it.

    draft: a draft model, which guesses tokens (the texts stay the same); draft_tokens, lookup: guesses of a run by it, and
    from the text's own tokens. max_texts: generated at once. kv_memory: bytes of all states. context: most tokens of a
    text, if the model has more. config and the other options are those of Session."""

    def __init__(self, path: Union[str, os.PathLike], *, variant: Optional[str] = None,
                 tokenizer: Union[str, os.PathLike, None] = None, draft: Union[str, os.PathLike, None] = None,
                 draft_tokens: int = 0, lookup: int = 0, max_texts: int = 0, kv_memory: int = 0,
                 context: int = 0, config: Union[bool, str, os.PathLike] = True, **options: Any):
        self._handle, self._lock, self._texts = None, threading.RLock(), weakref.WeakSet()
        handle, made = c_void_p(), _Options(config, list(options.items()), None)
        try:
            how = _ModelOptions(struct_size=ctypes.sizeof(_ModelOptions), options=made.handle,
                                variant=_encoded(variant, "variant"), tokenizer=_path(tokenizer), draft=_path(draft),
                                kv_memory=kv_memory, max_texts=max_texts, draft_tokens=draft_tokens,
                                lookup_tokens=lookup, context=context)
            with plugins_in_use:
                check(_functions().model_create, os.fsencode(path), ctypes.byref(how), ctypes.byref(handle))
        finally:
            made.close()
        self._handle = handle.value
        if self._info().warning:
            warnings.warn(f"{os.fsdecode(path)}: {self._info().warning.decode()}", stacklevel=2)

    def _open(self):
        if self._handle is None:
            raise InvalidArgument("this model is closed")
        return self._handle

    def close(self) -> None:
        """Frees the model. Its texts end."""
        with self._lock:
            for text in list(self._texts):
                text.close()
            handle, self._handle = self._handle, None
            if handle is not None:
                plugins_in_use.destroy(_functions().model_destroy, handle)

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> "TextModel":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("a text model cannot be pickled or copied")

    def _info(self) -> _ModelInfo:
        info = _ModelInfo(struct_size=ctypes.sizeof(_ModelInfo))
        _functions().model_describe(self._open(), ctypes.byref(info))
        return info

    @property
    def vocabulary(self) -> int:
        """All tokens are below it."""
        return self._info().vocabulary

    @property
    def context(self) -> Optional[int]:
        """The most tokens of a text; None: unknown."""
        return self._info().context or None

    @property
    def ends(self) -> List[int]:
        """Tokens that end a text."""
        info = self._info()
        return info.ends[:info.end_count]

    @property
    def embeds(self) -> bool:
        """Whether the model makes embeddings, and no texts."""
        return self._info().embeds != 0

    @property
    def has_template(self) -> bool:
        return self._info().has_template != 0

    def generate(self, prompt: Union[str, Sequence[int]], *, max_tokens: int = 0, temperature: Optional[float] = None,
                 top_k: Optional[int] = None, top_p: Optional[float] = None, min_p: Optional[float] = None,
                 repetition_penalty: Optional[float] = None, presence_penalty: float = 0, frequency_penalty: float = 0,
                 seed: Optional[int] = None, stop: Union[str, Sequence[str]] = (), schema: Any = None,
                 grammar: Optional[str] = None, adapter: Optional[str] = None, ignore_ends: bool = False,
                 rendered: bool = False, typical_p: Optional[float] = None, no_repeat_ngram_size: Optional[int] = None,
                 min_tokens: Optional[int] = None) -> Text:
        """Begins the continuation of a text, or of tokens. None: the value of the model's generation_config.json. The
        same seed gives the same text; None: another one each time. schema: a JSON Schema, as a dict or a text; grammar:
        GBNF. adapter: the name of a LoRA adapter of option adapter. rendered: the prompt has its special tokens
        already."""
        stops = [stop] if isinstance(stop, str) else list(stop)
        tokens = None if isinstance(prompt, str) else (c_int64 * len(prompt))(*prompt)
        request = _Request(
            struct_size=ctypes.sizeof(_Request), prompt=_encoded(prompt, "prompt") if tokens is None else None,
            tokens=tokens, token_count=0 if tokens is None else len(prompt),
            stops=(c_char_p * len(stops))(*(_encoded(one, "stop") for one in stops)), stop_count=len(stops),
            schema=_json(schema), grammar=_encoded(grammar, "grammar"),
            seed=int.from_bytes(os.urandom(8), "little") if seed is None else seed, max_tokens=max_tokens,
            flags=(IGNORE_ENDS if ignore_ends else 0) | (RENDERED if rendered else 0),
            top_k=-1 if top_k is None else top_k, temperature=-1 if temperature is None else temperature,
            top_p=-1 if top_p is None else top_p, min_p=-1 if min_p is None else min_p,
            repetition_penalty=-1 if repetition_penalty is None else repetition_penalty,
            presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
            adapter=_encoded(adapter, "adapter"), typical_p=-1 if typical_p is None else typical_p,
            no_repeat_ngram_size=OPEN if no_repeat_ngram_size is None else no_repeat_ngram_size,
            min_tokens=OPEN if min_tokens is None else min_tokens)
        return Text(self, request)

    def render(self, messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
               **variables: Any) -> str:
        """The prompt of a chat, by the model's chat template. messages: dicts with role and content; variables: further
        variables of the template, such as enable_thinking."""
        chat = _Chat(struct_size=ctypes.sizeof(_Chat), json=_json(list(messages)), tools=_json(tools),
                     variables=_json(variables or None))
        return self._written(_functions().model_chat, ctypes.byref(chat))

    def chat(self, messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
             variables: Optional[Mapping[str, Any]] = None, **sampling: Any) -> Text:
        """Begins the answer to the messages of a chat. sampling: parameters of generate()."""
        return self.generate(self.render(messages, tools=tools, **(variables or {})), rendered=True, **sampling)

    def tokenize(self, text: str, *, rendered: bool = False) -> List[int]:
        """The tokens of a text. rendered: without those that are added around it."""
        lib, data, count = _functions(), _encoded(text, "text"), c_size_t()
        flags = RENDERED if rendered else 0
        with self._lock:
            check(lib.model_tokenize, self._open(), data, len(data), flags, None, 0, ctypes.byref(count))
            tokens = (c_int64 * count.value)()
            if count.value > 0:
                check(lib.model_tokenize, self._open(), data, len(data), flags, tokens, count, ctypes.byref(count))
        return list(tokens)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of tokens. Those that end within a character give U+FFFD."""
        return self._written(_functions().model_detokenize, (c_int64 * len(tokens))(*tokens), len(tokens))

    def _written(self, function, *arguments) -> str:
        """The text that a function writes, which first tells its size."""
        size = c_size_t()
        with self._lock:
            check(function, self._open(), *arguments, None, 0, ctypes.byref(size))
            text = ctypes.create_string_buffer(size.value)
            check(function, self._open(), *arguments, text, size, ctypes.byref(size))
        return text.raw[:size.value - 1].decode("utf-8", "replace")

    def embed(self, text: Union[str, Sequence[str]]) -> np.ndarray:
        """The embedding of a text, float32 [size]; of several texts, [texts, size]."""
        if not isinstance(text, str):
            return np.stack([self.embed(one) for one in text])
        data, vector, size = _encoded(text, "text"), POINTER(c_float)(), c_size_t()
        with self._lock:
            check(_functions().model_embed, self._open(), data, len(data), ctypes.byref(vector), ctypes.byref(size))
            return np.ctypeslib.as_array(vector, (size.value,)).copy()
