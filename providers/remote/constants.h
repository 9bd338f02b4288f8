/* remote/constants.h - the constants of graphs in the shared memory of an isolated provider. A constant is copied
 * once, however many graphs contain it. Its pages are given back to the system when no call and no compiled region
 * reads it; its address stays reserved as long as a graph refers to it. The caller locks. */
#ifndef ISOLATE_CONSTANTS_H
#define ISOLATE_CONSTANTS_H
#include "inlay/graph_view.h"
#include "remote/heap.h"

typedef struct isolate_constant {
    struct isolate_constant *next;
    uint64_t hash; /* inlay_value_info.content_hash */
    uint64_t bytes;
    void *address; /* in the shared memory */
    bool present;  /* the pages hold the data */
    uint32_t references;
    uint32_t readers; /* calls in progress, and compiled regions that read it */
} isolate_constant;

typedef struct isolate_constants {
    isolate_heap *heap;
    isolate_constant *first;
} isolate_constants;

/* Returns the constant with a new reference; NULL: out of memory. Its data may not be present yet. */
isolate_constant *isolate_constant_get(isolate_constants *list, uint64_t hash, uint64_t bytes);
void isolate_constant_put(isolate_constants *list, isolate_constant *constant);
/* Makes the data, which is at `data` in the host's memory, present, and keeps it until isolate_constant_leave(). */
void isolate_constant_enter(isolate_constant *constant, const void *data);
void isolate_constant_leave(isolate_constant *constant);
/* Drops the pages of all constants without readers. */
void isolate_constants_trim(isolate_constants *list);
#endif
