/* The texts of a message, before protobuf-c makes strings of C of them: it neither checks that they are UTF-8 nor keeps
 * their length, so that a text with U+0000 would be taken for a shorter one. */
#include "base/utf8.h"
#include "serve/grpc/grpc_internal.h"
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, MAX_DEPTH = 16 };

typedef struct message_part {
    const uint8_t *at, *end;
} message_part;

/* false: the message is malformed, which protobuf-c reports. */
static bool read_varint(message_part *from, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        const uint8_t byte = *from->at++;

        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* Reads the next field; *out_part: its data, if it has a length. false: the end, or the message is malformed. */
static bool next_field(message_part *from, uint32_t *out_id, message_part *out_part)
{
    uint64_t key, value;

    *out_part = (message_part){ NULL, NULL };
    if (!read_varint(from, &key))
        return false;
    *out_id = (uint32_t)(key >> 3);
    if ((key & 7) == WIRE_VARINT)
        return read_varint(from, &value);
    if ((key & 7) == WIRE_64 || (key & 7) == WIRE_32)
        value = (key & 7) == WIRE_64 ? 8 : 4;
    else if ((key & 7) != WIRE_BYTES || !read_varint(from, &value))
        return false;
    if (value > (uint64_t)(from->end - from->at))
        return false;
    if ((key & 7) == WIRE_BYTES)
        *out_part = (message_part){ from->at, from->at + value };
    from->at += value;
    return true;
}

static const char *find_bad(const ProtobufCMessageDescriptor *type, message_part message, int depth)
{
    const char *bad = NULL;
    message_part part;
    uint32_t id;

    while (bad == NULL && next_field(&message, &id, &part)) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, id);
        const size_t bytes = (size_t)(part.end - part.at);

        if (field == NULL || part.at == NULL)
            continue;
        if (field->type == PROTOBUF_C_TYPE_STRING && bytes > 0 &&
            (memchr(part.at, 0, bytes) != NULL || !utf8_is_valid((const char *)part.at, bytes)))
            bad = field->name;
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth < MAX_DEPTH)
            bad = find_bad(field->descriptor, part, depth + 1);
    }
    return bad;
}

const char *grpc_bad_text(const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes)
{
    return find_bad(type, (message_part){ message, message + bytes }, 0);
}
