/* bundle/collect_parts.h - shared by collect.c (walks a program), collect_loop.c (loops as flat steps) and
 * collect_items.c (items and steps); each calls the files after it. Private to this folder. */
#ifndef BUNDLE_COLLECT_PARTS_H
#define BUNDLE_COLLECT_PARTS_H
#include "base/memory.h"
#include "bundle/collect.h"

struct collector {
    bundle_collection *collection;
    inlay_diag *diag;
};

/* Returns the index of a new item; INLAY_NONE: out of memory. */
uint32_t collect_item(struct collector *collector, bundle_item item);
/* Returns a new step with arrays for its items, which the caller fills in; NULL: out of memory. */
bundle_operation *collect_step(struct collector *collector, bundle_opcode opcode, uint32_t in_count,
                               uint32_t out_count);
/* Completes the step: its items are in use while it runs. */
void collect_finish(struct collector *collector);
inlay_status collect_copy(struct collector *collector, uint32_t from, uint32_t to);
/* Size of a tensor; an error if it is not fixed. */
inlay_status collect_bytes(const struct collector *collector, const inlay_value_info *info, uint64_t *out_bytes);
/* Assigns a place in the slab to a value that a step of the part computes. */
inlay_status collect_value(struct collector *collector, uint32_t part, uint32_t value);
/* The item of a value that is read; a constant gets one at its first use. */
inlay_status collect_find(struct collector *collector, uint32_t part, uint32_t value, uint32_t *out);
/* Adds a graph. live: which of its outputs are read; NULL: all. */
inlay_status collect_part(struct collector *collector, const struct program *program, const bool *live, uint32_t *out);
bool collect_is_live(const struct collector *collector, uint32_t part, const uint32_t *values, uint32_t count);

/* The items that a Loop or Scan uses from its begin to its end. */
typedef struct loop_items {
    bool is_loop;            /* a Loop, whose body has a counter and a condition before the state */
    int64_t iterations;      /* -1: not fixed */
    uint32_t count, cond;    /* the counter and the condition */
    uint32_t *state;         /* [carried] items of the values that iterations pass on */
    uint32_t carried, scans; /* numbers of state values and of scan outputs */
    uint32_t *scan;          /* [scans] items of the scan outputs, INLAY_NONE: unused */
    uint32_t begin;          /* the first step of an iteration */
} loop_items;

/* Add the steps before and after those of the body of a Loop or Scan, which is a part of the collection. */
inlay_status collect_loop_begin(struct collector *collector, uint32_t part, const program_step *step, loop_items *items,
                                uint32_t *out_body);
inlay_status collect_loop_end(struct collector *collector, uint32_t part, const program_step *step,
                              const loop_items *items, uint32_t body);
#endif
