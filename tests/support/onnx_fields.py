"""Fields of protobuf's wire format, and a few messages of ONNX, for tests that write models without a library."""


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def block(field, data):
    """A text, bytes or a message."""
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def value(name, dims=(4, ), dtype=1):
    """A ValueInfoProto of a tensor."""
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, shape)))
