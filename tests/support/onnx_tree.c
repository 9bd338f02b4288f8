#include "onnx_tree.h"
#include "kit/wire.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 60 };

/* Fields that contain messages. */
static const struct {
    uint8_t message, number, holds;
} known[] = {
    { MSG_MODEL, 7, MSG_GRAPH },         { MSG_MODEL, 8, MSG_OPSET },          { MSG_MODEL, 25, MSG_FUNCTION },
    { MSG_GRAPH, 1, MSG_NODE },          { MSG_GRAPH, 5, MSG_TENSOR },         { MSG_GRAPH, 11, MSG_VALUE_INFO },
    { MSG_GRAPH, 12, MSG_VALUE_INFO },   { MSG_GRAPH, 13, MSG_VALUE_INFO },    { MSG_GRAPH, 15, MSG_SPARSE },
    { MSG_NODE, 5, MSG_ATTRIBUTE },      { MSG_ATTRIBUTE, 5, MSG_TENSOR },     { MSG_ATTRIBUTE, 6, MSG_GRAPH },
    { MSG_ATTRIBUTE, 10, MSG_TENSOR },   { MSG_ATTRIBUTE, 11, MSG_GRAPH },     { MSG_ATTRIBUTE, 14, MSG_TYPE },
    { MSG_ATTRIBUTE, 22, MSG_SPARSE },   { MSG_SPARSE, 1, MSG_TENSOR },        { MSG_SPARSE, 2, MSG_TENSOR },
    { MSG_VALUE_INFO, 2, MSG_TYPE },     { MSG_TYPE, 1, MSG_TENSOR_TYPE },     { MSG_TYPE, 4, MSG_LIST_TYPE },
    { MSG_TYPE, 9, MSG_LIST_TYPE },      { MSG_LIST_TYPE, 1, MSG_TYPE },       { MSG_TENSOR_TYPE, 2, MSG_SHAPE },
    { MSG_SHAPE, 1, MSG_DIM },           { MSG_FUNCTION, 7, MSG_NODE },        { MSG_FUNCTION, 9, MSG_OPSET },
    { MSG_FUNCTION, 11, MSG_ATTRIBUTE }, { MSG_FUNCTION, 12, MSG_VALUE_INFO },
};

static uint32_t held(uint32_t message, uint32_t number)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].message == message && known[i].number == number)
            return known[i].holds;
    return MSG_NONE;
}

bool tree_is_ints(const tree_field *field)
{
    return (field->message == MSG_ATTRIBUTE && field->number == 8) ||
           (field->message == MSG_TENSOR && field->number == 1) ||
           (field->message == MSG_TENSOR && field->number == 7) || (field->message == MSG_SPARSE && field->number == 3);
}

static void *abort_if_null(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void add(tree_field *parent, tree_field *child)
{
    parent->fields = abort_if_null(realloc(parent->fields, (parent->field_count + 1) * sizeof(tree_field *)));
    parent->fields[parent->field_count++] = child;
}

void tree_destroy(tree_field *field)
{
    if (field == NULL)
        return;
    for (uint32_t i = 0; i < field->field_count; i++)
        tree_destroy(field->fields[i]);
    free(field->fields);
    free(field->bytes);
    free(field);
}

tree_field *tree_copy(const tree_field *field)
{
    tree_field *copy = abort_if_null(malloc(sizeof *copy));

    *copy = *field;
    copy->bytes = NULL;
    copy->fields = NULL;
    copy->field_count = 0;
    tree_set_bytes(copy, field->bytes, field->byte_count);
    for (uint32_t i = 0; i < field->field_count; i++)
        add(copy, tree_copy(field->fields[i]));
    return copy;
}

void tree_set_bytes(tree_field *field, const void *data, size_t bytes)
{
    uint8_t *copy = abort_if_null(malloc(bytes + 1));

    if (bytes > 0)
        memcpy(copy, data, bytes);
    free(field->bytes);
    field->bytes = copy;
    field->byte_count = bytes;
}

void tree_add_copy(tree_field *parent, const tree_field *child)
{
    add(parent, tree_copy(child));
}

void tree_remove(tree_field *parent, tree_field *child)
{
    for (uint32_t i = 0; i < parent->field_count; i++) {
        if (parent->fields[i] != child)
            continue;
        tree_destroy(child);
        parent->field_count--;
        memmove(parent->fields + i, parent->fields + i + 1, (parent->field_count - i) * sizeof(tree_field *));
        return;
    }
}

size_t tree_list(tree_field *field, tree_field **fields, tree_field **parents, size_t room)
{
    size_t count = 0;

    for (uint32_t i = 0; i < field->field_count && count < room; i++) {
        fields[count] = field->fields[i];
        parents[count++] = field;
        count += tree_list(field->fields[i], fields + count, parents + count, room - count);
    }
    return count;
}

static bool read_message(tree_field *into, wire_span rest, int depth)
{
    wire_field read;

    while (wire_next(&rest, &read)) {
        tree_field *field = abort_if_null(calloc(1, sizeof *field));

        add(into, field);
        field->message = into->holds;
        field->number = read.number;
        field->wire = read.type;
        if (read.type != WIRE_BYTES) {
            field->value = read.value;
            continue;
        }
        field->holds = held(field->message, field->number);
        if (field->holds == MSG_NONE)
            tree_set_bytes(field, read.data.at, read.data.count);
        else if (depth == MAX_DEPTH || !read_message(field, read.data, depth + 1))
            return false;
    }
    return rest.count == 0;
}

tree_field *tree_read(const uint8_t *data, size_t bytes)
{
    tree_field *field = abort_if_null(calloc(1, sizeof *field));

    field->wire = 2;
    field->holds = MSG_MODEL;
    if (read_message(field, (wire_span){ data, bytes }, 0))
        return field;
    tree_destroy(field);
    return NULL;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v > 0x7f; v >>= 7)
        n++;
    return n;
}

static size_t body_size(const tree_field *field);

static size_t field_size(const tree_field *field)
{
    size_t body = body_size(field), tag = varint_size((uint64_t)field->number << 3);

    return field->wire == 2 ? tag + varint_size(body) + body : tag + body;
}

static size_t body_size(const tree_field *field)
{
    size_t n = field->byte_count;

    if (field->wire != 2)
        return field->wire == 0 ? varint_size(field->value) : field->wire == 1 ? 8 : 4;
    for (uint32_t i = 0; i < field->field_count; i++)
        n += field_size(field->fields[i]);
    return n;
}

static uint8_t *put_varint(uint8_t *to, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        *to++ = (uint8_t)(v | 0x80);
    *to++ = (uint8_t)v;
    return to;
}

static uint8_t *put_body(uint8_t *to, const tree_field *field)
{
    if (field->wire == 0)
        return put_varint(to, field->value);
    if (field->wire != 2) {
        memcpy(to, &field->value, field->wire == 1 ? 8 : 4);
        return to + (field->wire == 1 ? 8 : 4);
    }
    if (field->byte_count > 0)
        memcpy(to, field->bytes, field->byte_count);
    to += field->byte_count;
    for (uint32_t i = 0; i < field->field_count; i++) {
        const tree_field *f = field->fields[i];

        to = put_varint(to, (uint64_t)f->number << 3 | f->wire);
        if (f->wire == 2)
            to = put_varint(to, body_size(f));
        to = put_body(to, f);
    }
    return to;
}

uint8_t *tree_write(const tree_field *field, size_t *out_bytes)
{
    size_t bytes = body_size(field);
    uint8_t *data = abort_if_null(malloc(bytes + 1));

    (void)put_body(data, field);
    *out_bytes = bytes;
    return data;
}
