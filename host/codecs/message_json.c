#include "codecs/message_json.h"
#include "codecs/field.h"
#include "inlay/check.h"
#include <string.h>

static void write_text(struct strbuf *to, const char *text)
{
    strbuf_json(to, text, strlen(text));
}

static void write_value(struct strbuf *to, const ProtobufCFieldDescriptor *field, const void *value)
{
    const ProtobufCEnumValue *name;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
        strbuf_int(to, *(const int32_t *)value);
        break;
    case PROTOBUF_C_TYPE_INT64:
        strbuf_int(to, *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        strbuf_uint(to, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        strbuf_uint(to, *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        strbuf_text(to, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        name = protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)value);
        write_text(to, name != NULL ? name->name : "");
        break;
    case PROTOBUF_C_TYPE_STRING:
        write_text(to, *(char *const *)value);
        break;
    default: /* the schemas have no other types */
        INLAY_CHECK(field->type == PROTOBUF_C_TYPE_MESSAGE);
        message_json(to, *(ProtobufCMessage *const *)value);
    }
}

/* Whether the field is a map: its messages have a key and a value. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;

    return field->type == PROTOBUF_C_TYPE_MESSAGE && type->n_fields == 2 && strcmp(type->fields[0].name, "key") == 0 &&
           strcmp(type->fields[1].name, "value") == 0;
}

static void write_repeated(struct strbuf *to, const ProtobufCFieldDescriptor *field, const char *list, size_t count)
{
    bool map = is_map(field);

    strbuf_text(to, map ? "{" : "[");
    for (size_t i = 0; i < count; i++) {
        const void *element = list + i * field_bytes(field);

        strbuf_text(to, i > 0 ? "," : "");
        if (map) {
            const ProtobufCMessage *entry = *(ProtobufCMessage *const *)element;
            const ProtobufCFieldDescriptor *parts = entry->descriptor->fields;

            write_value(to, &parts[0], (const char *)entry + parts[0].offset);
            strbuf_text(to, ":");
            write_value(to, &parts[1], (const char *)entry + parts[1].offset);
        } else {
            write_value(to, field, element);
        }
    }
    strbuf_text(to, map ? "}" : "]");
}

void message_json(struct strbuf *to, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type;
    uint32_t count = 0;

    if (message == NULL) {
        strbuf_text(to, "{}");
        return;
    }
    type = message->descriptor;
    strbuf_text(to, "{");
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const char *value = (const char *)message + field->offset,
                   *quantifier = (const char *)message + field->quantifier_offset;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0
                ? *(const int *)(const void *)quantifier != (int)field->id
                : field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED &&
                      *(void *const *)(const void *)value == NULL)
            continue;
        strbuf_text(to, count++ > 0 ? "," : "");
        write_text(to, field->name);
        strbuf_text(to, ":");
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            write_repeated(to, field, *(const char *const *)(const void *)value,
                           *(const size_t *)(const void *)quantifier);
        else
            write_value(to, field, value);
    }
    strbuf_text(to, "}");
}
