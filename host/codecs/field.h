/* codecs/field.h - sizes of the fields of protobuf-c's messages. */
#ifndef CODECS_FIELD_H
#define CODECS_FIELD_H
#include <protobuf-c/protobuf-c.h>

/* The size of one value of a field, an element if the field is repeated. The schemas have numbers, enumerations, texts
 * and messages. */
static inline size_t field_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        return sizeof(int32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    default:
        return sizeof(void *);
    }
}
#endif
