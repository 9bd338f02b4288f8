/* bundle/emitter.h - the state of bundle_emit_source(), and the part that writes graphs (emit_graph.c). */
#ifndef BUNDLE_EMITTER_H
#define BUNDLE_EMITTER_H
#include "bundle/emit.h"
#include "bundle/emit_array.h"

struct emitter {
    FILE *to, *data;
    emitted_arrays arrays;
    bundle_collection *collection;
    const bundle_names *names;
    const bundle_facts *facts;
    uint64_t at;      /* bytes of data so far */
    uint32_t **value; /* [part_count][value_count] index of a value in the source, INLAY_NONE: unused */
    uint32_t *values; /* [part_count] number of used values */
};

/* Writes a number; NaN and infinity as C writes them. */
void emit_double(FILE *to, double value);
/* Writes the array NAME<first>_<second> with the indices of values in the source. */
void emit_values_of(struct emitter *emitter, const char *name, uint32_t first, uint32_t second, uint32_t part,
                    const uint32_t *list, uint32_t count);
/* Writes graph<part>, and its constants to the data file. False: out of memory. */
bool emit_graph(struct emitter *emitter, uint32_t part);
#endif
