/* base/names.h - a table from text to number: value names of a graph, symbols, external files.
 *
 * Open addressing over borrowed texts: whoever adds a text keeps it alive. Where a table can run out of memory it says
 * so (uthash, the usual choice, exits). The hash is seeded per table, so a file cannot be made to collide. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_NONE UINT32_MAX /* the same number as INLAY_NONE */

typedef struct names_entry {
    const char *text; /* NULL = free slot */
    size_t bytes;
    uint64_t hash;
    uint32_t number;
} names_entry;

typedef struct names_table {
    names_entry *entries; /* [capacity], a power of two, at most half full */
    size_t capacity;
    size_t count;
    uint64_t seed;
} names_table;

/* {0} is an empty table. */
void names_deinit(names_table *table);
/* The number of a text, NAMES_NONE if it is not there. */
uint32_t names_find(const names_table *table, const char *text, size_t bytes);
/* Adds text -> number. false: out of memory. *out_present (may be NULL) is the number that the text had already, in
 * which case the table stays as it was, or NAMES_NONE. */
bool names_add(names_table *table, const char *text, size_t bytes, uint32_t number, uint32_t *out_present);
#endif
