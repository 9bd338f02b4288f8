/* bundle/collect_parts.h - what collect.c and collect_loop.c share. Private to this folder. */
#ifndef BUNDLE_COLLECT_PARTS_H
#define BUNDLE_COLLECT_PARTS_H
#include "base/memory.h"
#include "bundle/collect.h"

typedef struct collector {
    bundle_collection *c;
    inlay_diag *diag;
} collector;

/* The number of a new item; INLAY_NONE: no memory. */
uint32_t collect_item(collector *k, bundle_item item);
/* A step with room for its items, which the caller fills in; NULL: no memory. Then the items are in use in it. */
bundle_do *collect_step(collector *k, bundle_what what, uint32_t in_count, uint32_t out_count);
void collect_finish(collector *k);
inlay_status collect_copy(collector *k, uint32_t from, uint32_t to);
/* A value that a step of the part makes gets a place in the slab. */
inlay_status collect_value(collector *k, uint32_t part, uint32_t v);
/* The item of a value that is read. */
inlay_status collect_find(collector *k, uint32_t part, uint32_t v, uint32_t *out);
inlay_status collect_part(collector *k, const program *p, uint32_t *out);
inlay_status collect_walk(collector *k, uint32_t part);
/* collect_loop.c */
inlay_status collect_loop(collector *k, uint32_t part, const program_step *s);
#endif
