/* bundle/collect.h - a session as a flat list of steps with a place for every tensor: the input of the code generator.
 */
#ifndef BUNDLE_COLLECT_H
#define BUNDLE_COLLECT_H
#include "session/session.h"

/* The place of a value. */
typedef enum item_kind { ITEM_SLAB, ITEM_INPUT, ITEM_OUTPUT, ITEM_DATA } item_kind;
typedef struct bundle_item {
    item_kind kind;
    uint32_t index;       /* of the model's input or output */
    uint32_t first, last; /* first and last step that use the item */
    uint64_t bytes;
    uint64_t offset;  /* SLAB: in the slab; DATA: in the file of constants, set when that is written */
    const void *data; /* DATA */
} bundle_item;

/* A graph of the session: the main one or a body. */
typedef struct bundle_part {
    const struct program *program;
    uint32_t *item_of; /* [value_count] INLAY_NONE: no value at run time */
    bool *live;        /* [value_count] values that the outputs of the model depend on */
} bundle_part;

/* A Loop or Scan is a list of steps: BEGIN, which sets its counter to 0 and its condition to true; TEST, which leaves
 * the loop; ELEMENTs, which copy an element of each scan input; the body; SCANs, which store results in the scan
 * outputs; NEXT, which increments the counter and jumps to TEST. */
typedef enum bundle_opcode {
    DO_RUN,
    DO_COPY,
    DO_UNLESS,
    DO_JUMP,
    DO_BEGIN,
    DO_TEST,
    DO_NEXT,
    DO_SCAN,
    DO_ELEMENT
} bundle_opcode;
typedef struct bundle_operation {
    bundle_opcode opcode;
    uint32_t part;            /* RUN */
    const program_step *step; /* RUN */
    uint32_t target;          /* UNLESS, JUMP, TEST, NEXT: index of a step */
    /* SCAN, ELEMENT: bytes of one iteration at one index of the axes before the scanned one. TEST: the greatest number
     * of iterations. */
    uint64_t block;
    bool backwards;     /* SCAN, ELEMENT: from the last iteration to the first */
    uint32_t *in, *out; /* indexes of items */
    uint32_t in_count, out_count;
} bundle_operation;

typedef struct bundle_collection {
    struct arena arena;
    bundle_part *parts;
    bundle_item *items;
    bundle_operation *steps;
    uint32_t part_count, item_count, step_count;
    uint64_t slab_bytes, lower_bound_bytes;
    const partition_provider *providers; /* [provider_count] of the session */
    uint32_t provider_count;
} bundle_collection;

/* Lists the steps of a run of the session. The collection borrows the session. INLAY_UNSUPPORTED: the message names the
 * node or the input that a bundle does not support. The caller releases *out even after a failure. */
INLAY_NODISCARD inlay_status bundle_collect(const inlay_session *session, bundle_collection *out, inlay_diag *diag);
void bundle_collection_deinit(bundle_collection *collection);
/* Whether the step is a region of the provider cpu. Operators of cpu, which are offers that do not merge, run in a
 * bundle as operators of the provider reference. */
bool bundle_is_region(const bundle_collection *collection, const bundle_operation *step);
#endif
