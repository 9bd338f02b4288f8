/* base/names.h - a hash table from text to number: value names of a graph, symbols, external files.
 *
 * Open addressing over borrowed texts: the caller keeps the texts alive. Unlike uthash, which exits, it reports that
 * memory is exhausted. The hash is seeded per table, so a file cannot be made to cause collisions. */
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
/* Returns the number of a text, or NAMES_NONE. */
uint32_t names_find(const names_table *table, const char *text, size_t bytes);
/* Adds text -> number. False: out of memory. If the table has the text already, it stays unchanged and *out_present
 * (may be NULL) is the text's number; otherwise *out_present is NAMES_NONE. */
bool names_add(names_table *table, const char *text, size_t bytes, uint32_t number, uint32_t *out_present);
#endif
