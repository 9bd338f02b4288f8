/* onnx_tree.h - an ONNX file as a tree of wire fields that a test can modify and write back.
 *
 * The tree only knows which fields are messages, names and packed numbers. After any modification the written file is
 * well-formed protobuf, so that errors reach the code after the parser. */
#ifndef ONNX_TREE_H
#define ONNX_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The relevant messages of onnx.proto. */
enum {
    MSG_NONE,
    MSG_MODEL,
    MSG_GRAPH,
    MSG_NODE,
    MSG_ATTRIBUTE,
    MSG_TENSOR,
    MSG_VALUE_INFO,
    MSG_TYPE,
    MSG_TENSOR_TYPE,
    MSG_LIST_TYPE,
    MSG_SHAPE,
    MSG_DIM,
    MSG_FUNCTION,
    MSG_SPARSE,
    MSG_OPSET,
    MSG_COUNT
};

typedef struct tree_field {
    uint32_t number;
    uint32_t wire;    /* 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes */
    uint32_t message; /* MSG_*: the message that contains the field */
    uint32_t holds;   /* MSG_*: the message inside, for wire 2; MSG_NONE: plain bytes */
    uint64_t value;   /* for wires 0, 1, 5 */
    uint8_t *bytes;   /* plain bytes: [byte_count], owned */
    size_t byte_count;
    struct tree_field **fields; /* for messages: [field_count] */
    uint32_t field_count;
} tree_field;

/* Reads a file as one field that contains MSG_MODEL; NULL if it is not well-formed. Aborts if memory is exhausted. */
tree_field *tree_read(const uint8_t *data, size_t bytes);
/* A deep copy. */
tree_field *tree_copy(const tree_field *field);
void tree_destroy(tree_field *field); /* NULL is a no-op */
/* Writes the file into a new block of *out_bytes bytes; the caller frees it. */
uint8_t *tree_write(const tree_field *field, size_t *out_bytes);
/* Lists the fields below `field`, at most `room` of them, in file order, with their parents; returns their number. */
size_t tree_list(tree_field *field, tree_field **fields, tree_field **parents, size_t room);
/* True for the repeated integers that protobuf may pack: ints of an attribute, dims and int64_data of a tensor, dims
 * of a sparse tensor. */
bool tree_is_ints(const tree_field *field);
/* Removes child from parent and destroys it. */
void tree_remove(tree_field *parent, tree_field *child);
/* Adds a copy of child to parent, at the end. */
void tree_add_copy(tree_field *parent, const tree_field *child);
/* Replaces the bytes of a bytes field. */
void tree_set_bytes(tree_field *field, const void *data, size_t bytes);
#endif
