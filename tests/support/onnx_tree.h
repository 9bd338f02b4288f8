/* onnx_tree.h - an ONNX file as a tree of wire fields that a test may bend and write back.
 *
 * The tree knows which fields are messages, names, packed numbers; nothing else about ONNX. Whatever is done to it,
 * what is written is well-formed protobuf, so that damage reaches the code behind the loader. */
#ifndef ONNX_TREE_H
#define ONNX_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The messages of onnx.proto that matter here. */
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
    uint32_t message; /* MSG_*: what it is a field of */
    uint32_t holds;   /* MSG_*: of wire 2, the message inside; MSG_NONE = bytes */
    uint64_t value;   /* of wires 0, 1, 5 */
    uint8_t *bytes;   /* of bytes: own memory, byte_count of them */
    size_t byte_count;
    struct tree_field **fields; /* of messages: [field_count] */
    uint32_t field_count;
} tree_field;

/* The whole file as one field that holds MSG_MODEL; NULL if it is no well-formed file (or memory ran out). */
tree_field *tree_read(const uint8_t *data, size_t bytes);
/* A deep copy. */
tree_field *tree_copy(const tree_field *field);
void tree_destroy(tree_field *field); /* NULL is a no-op */
/* Writes the file into a new block of *out_bytes; the caller frees it. */
uint8_t *tree_write(const tree_field *field, size_t *out_bytes);
/* All fields below field, at most room of them, in file order, with their parents; returns how many there are. */
size_t tree_list(tree_field *field, tree_field **fields, tree_field **parents, size_t room);
/* Is it a list of numbers (ints of an attribute, dims), packed or to be packed? */
bool tree_is_ints(const tree_field *field);
/* Takes child out of parent and destroys it. */
void tree_remove(tree_field *parent, tree_field *child);
/* Adds a copy of child to parent, at the end. */
void tree_add_copy(tree_field *parent, const tree_field *child);
/* Replaces the bytes of a bytes field. */
void tree_set_bytes(tree_field *field, const void *data, size_t bytes);
#endif
