/* bundle/collect.h - a session as a flat list of steps with a place for every tensor: what a program without a host
 * needs to know. */
#ifndef BUNDLE_COLLECT_H
#define BUNDLE_COLLECT_H
#include "session/session.h"

/* Where a value lies. */
typedef enum item_kind { ITEM_SLAB, ITEM_INPUT, ITEM_OUTPUT, ITEM_DATA } item_kind;
typedef struct bundle_item {
    item_kind kind;
    uint32_t index;       /* of the model's input or output */
    uint32_t first, last; /* steps between which it is in use */
    uint64_t bytes;
    uint64_t offset;  /* SLAB: in the slab; DATA: set by whoever writes the constants */
    const void *data; /* DATA */
} bundle_item;

/* A graph of the session: the main one or a body. */
typedef struct bundle_part {
    const struct program *program;
    uint32_t *item_of; /* [value_count] INLAY_NONE: not known at run time */
} bundle_part;

/* A Loop is BEGIN, which sets its counter to 0 and its condition to true; TEST, which leaves it; the body; SCANs, which
 * put what it made behind that of the turns before; NEXT, which counts and goes back to TEST. */
typedef enum bundle_what { DO_RUN, DO_COPY, DO_UNLESS, DO_JUMP, DO_BEGIN, DO_TEST, DO_NEXT, DO_SCAN } bundle_what;
typedef struct bundle_do {
    bundle_what what;
    uint32_t part;            /* RUN */
    const program_step *step; /* RUN */
    uint32_t target;          /* UNLESS, JUMP, TEST, NEXT: a step */
    uint32_t *in, *out;       /* items */
    uint32_t in_count, out_count;
} bundle_do;

typedef struct bundle_collection {
    struct arena arena;
    bundle_part *parts;
    bundle_item *items;
    bundle_do *steps;
    uint32_t part_count, item_count, step_count;
    uint64_t slab_bytes, lower_bound_bytes;
    const partition_provider *providers; /* [provider_count] the session's */
    uint32_t provider_count;
} bundle_collection;

/* Lists what a run of the session does; memory is the collection's, but it borrows the session. INLAY_UNSUPPORTED names
 * the node or the input that a program without a host cannot have. The caller releases *out whatever comes of it. */
INLAY_NODISCARD inlay_status bundle_collect(const inlay_session *session, bundle_collection *out, inlay_diag *diag);
void bundle_collection_deinit(bundle_collection *collection);
/* Is the step a region of the provider cpu, rather than one of its operators, which a program runs as it runs those of
 * the provider reference? Operators are the offers that do not merge. */
bool bundle_is_region(const bundle_collection *collection, const bundle_do *step);
#endif
