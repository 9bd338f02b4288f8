#include "wire.h"

enum { MOST_NUMBER = 0x1fffffff };

bool wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    const uint8_t *byte = *at;

    for (unsigned shift = 0; shift <= 63 && byte < end; shift += 7) {
        value |= (uint64_t)(*byte & 0x7f) << shift;
        if ((*byte++ & 0x80) == 0) {
            *at = byte;
            *out = value;
            return true;
        }
    }
    return false;
}

wire_fault wire_read(wire_span *rest, wire_field *out)
{
    const uint8_t *at = rest->at, *const end = at + rest->count;
    uint64_t key;

    *out = (wire_field){ .number = 0 };
    if (!wire_varint(&at, end, &key) || key >> 3 == 0 || key >> 3 > MOST_NUMBER)
        return WIRE_BAD_KEY;
    out->number = (uint32_t)(key >> 3);
    out->type = (uint32_t)(key & 7);
    switch (out->type) {
    case WIRE_VARINT:
        if (!wire_varint(&at, end, &out->value))
            return WIRE_CUT_NUMBER;
        out->data = (wire_span){ at, 0 };
        break;
    case WIRE_BYTES:
    case WIRE_64:
    case WIRE_32:
        if (out->type != WIRE_BYTES)
            out->value = out->type == WIRE_64 ? 8 : 4;
        else if (!wire_varint(&at, end, &out->value))
            return WIRE_CUT_LENGTH;
        out->data = (wire_span){ at, (size_t)(end - at) };
        if (out->value > out->data.count)
            return WIRE_CUT_DATA;
        out->data.count = (size_t)out->value;
        if (out->type != WIRE_BYTES) {
            out->value = 0;
            memcpy(&out->value, at, out->data.count);
        }
        break;
    default:
        return WIRE_BAD_TYPE;
    }
    at += out->data.count;
    out->whole = (wire_span){ rest->at, (size_t)(at - rest->at) };
    *rest = (wire_span){ at, rest->count - out->whole.count };
    return WIRE_OK;
}
