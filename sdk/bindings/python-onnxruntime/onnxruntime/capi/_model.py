"""Metadata of a model file, which is read before a session exists."""
import mmap
from typing import Dict, Iterator, Tuple, Union

_METADATA = 14  # of ModelProto


def _varint(data, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _fields(data, at: int, end: int) -> Iterator[Tuple[int, int, int]]:
    """(number, start, end) of the fields with a length in a message; other fields are skipped."""
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(data, at)
            if size > end - at:
                raise ValueError("a field that is longer than its message")
            yield key >> 3, at, at + size
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")


def _inside(data, span, *path: int) -> Iterator[Tuple[int, int]]:
    """The messages at a path of field numbers."""
    if not path:
        yield span
        return
    for number, start, end in _fields(data, *span):
        if number == path[0]:
            yield from _inside(data, (start, end), *path[1:])


def _text(data, span, number: int) -> str:
    for start, end in _inside(data, span, number):
        return bytes(data[start:end]).decode("utf-8", "replace")
    return ""


def _view(path_or_bytes: Union[str, bytes]):
    if isinstance(path_or_bytes, bytes):
        return path_or_bytes
    with open(path_or_bytes, "rb") as f:
        return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)


def metadata(path_or_bytes: Union[str, bytes]) -> Dict[str, str]:
    """The metadata of a model; {} for a file that cannot be read."""
    try:
        data = _view(path_or_bytes)
        return {_text(data, entry, 1): _text(data, entry, 2) for entry in _inside(data, (0, len(data)), _METADATA)}
    except (OSError, ValueError, IndexError):
        return {}
