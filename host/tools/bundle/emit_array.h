/* bundle/emit_array.h - constant arrays in the generated source. Arrays of one type with the same elements are written
 * once: most nodes of a model have the same few lists of attributes, and most values the same few shapes. */
#ifndef BUNDLE_EMIT_ARRAY_H
#define BUNDLE_EMIT_ARRAY_H
#include "base/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct emitted_array {
    const char *type, *elements;
    uint64_t hash; /* of the elements */
} emitted_array;

typedef struct emitted_arrays {
    FILE *to; /* the source; borrowed */
    struct arena *arena;
    FILE *elements; /* receives the text between the braces, see emit_array_end() */
    char *text;
    size_t text_bytes;
    emitted_array *list; /* [count] array i has the name c<i> */
    uint32_t count;
    bool failed; /* out of memory */
} emitted_arrays;

/* Call emit_arrays_deinit() in any case. False: out of memory. */
bool emit_arrays_init(emitted_arrays *arrays, FILE *to, struct arena *arena);
void emit_arrays_deinit(emitted_arrays *arrays);
/* Ends an array whose elements have been written to `elements`. Returns its number. */
uint32_t emit_array_end(emitted_arrays *arrays, const char *type);
#endif
