/* bundle/collect_parts.h - what collect.c (walks a program), collect_loop.c (loops as flat steps) and collect_items.c
 * (items and steps) share; each calls those behind it. Private to this folder. */
#ifndef BUNDLE_COLLECT_PARTS_H
#define BUNDLE_COLLECT_PARTS_H
#include "base/memory.h"
#include "bundle/collect.h"

struct collector {
    bundle_collection *collection;
    inlay_diag *diag;
};

/* The number of a new item; INLAY_NONE: no memory. */
uint32_t collect_item(struct collector *collector, bundle_item item);
/* A step with room for its items, which the caller fills in; NULL: no memory. */
bundle_do *collect_step(struct collector *collector, bundle_what what, uint32_t in_count, uint32_t out_count);
/* It is complete: its items are in use while it runs. */
void collect_finish(struct collector *collector);
inlay_status collect_copy(struct collector *collector, uint32_t from, uint32_t to);
/* Of a tensor of a fixed size; an error for all others. */
inlay_status collect_bytes(const struct collector *collector, const inlay_value_info *info, uint64_t *out_bytes);
/* A value that a step of the part makes gets a place in the slab. */
inlay_status collect_value(struct collector *collector, uint32_t part, uint32_t v);
/* The item of a value that is read; a constant gets one when it is first asked for. */
inlay_status collect_find(struct collector *collector, uint32_t part, uint32_t v, uint32_t *out);
inlay_status collect_part(struct collector *collector, const struct program *program, uint32_t *out);

/* What a Loop has a place for from its begin to its end. */
typedef struct loop_items {
    uint32_t count, cond; /* the counter, whether it goes on */
    uint32_t *state;      /* [carried] */
    uint32_t carried, scans;
    uint32_t *scan; /* [scans] where what the body makes each turn is collected, INLAY_NONE: nobody wants it */
    uint32_t begin; /* the first step of a turn */
} loop_items;

/* The steps before and behind those of a Loop's body, which is a part of the collection then. */
inlay_status collect_loop_begin(struct collector *collector, uint32_t part, const program_step *step, loop_items *items,
                                uint32_t *out_body);
inlay_status collect_loop_end(struct collector *collector, uint32_t part, const program_step *step,
                              const loop_items *items, uint32_t body);
#endif
