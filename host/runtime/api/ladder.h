/* api/ladder.h - the choice of a variant by the deadline of a run (option ladder): the most exact one that is expected
 * to end in time.
 *
 * The expected time of a variant is its quickest time at these input shapes, multiplied by the load: the slowdown that
 * recent runs of any variant had. A run that takes longer should be stopped while the quickest variant can still end in
 * time, and that one run instead. run_api.c does so. */
#ifndef API_LADDER_H
#define API_LADDER_H
#include "inlay/inlay.h"
#include <stdbool.h>

enum { LADDER_LOADS = 64, LADDER_SHAPES = 32 };

/* What is known of runs at certain input shapes. */
typedef struct ladder_times {
    uint64_t shapes; /* hash of the shapes; 0: unused */
    double bytes;    /* of all inputs */
    double
        *quickest; /* [count] nanoseconds of the quickest run of each variant; 0: none, INFINITY: one, which planned */
} ladder_times;

typedef struct context_ladder {
    inlay_context **contexts; /* [count] of the variants, the most exact first; borrowed */
    uint32_t count;
    uint32_t last;                     /* the variant of the last run */
    double loads[LADDER_LOADS];        /* of recent runs: time / quickest time, at least 1; in a ring */
    uint64_t load_count;               /* so far */
    ladder_times times[LADDER_SHAPES]; /* [0] of the first run, the others in a ring */
    uint32_t shape_count;              /* so far, also of those that were replaced */
} context_ladder;

/* A ladder of `count` variants whose contexts are NULL. NULL: out of memory. */
context_ladder *ladder_create(uint32_t count);
void ladder_destroy(context_ladder *ladder); /* NULL is a no-op */

/* Is nothing known yet? Then the first run runs every variant, the most exact one last. */
bool ladder_is_new(const context_ladder *ladder);
/* Forgets all times, because the first run failed. */
void ladder_reset(context_ladder *ladder);
/* Forgets the loads, of runs that touched memory for the first time. */
void ladder_forget_loads(context_ladder *ladder);
/* The entry of the shapes of the inputs [count], some of which may be NULL. Valid until the next call. */
ladder_times *ladder_find_times(context_ladder *ladder, inlay_value *const *inputs, uint32_t count);
/* Notes that a run of the variant took ns. stopped: it would have taken longer. */
void ladder_note(context_ladder *ladder, ladder_times *times, uint32_t variant, double ns, bool stopped);

typedef struct ladder_choice {
    uint32_t variant, quickest;
    double reserve_ns; /* what the quickest variant needs if the chosen one is stopped */
} ladder_choice;
/* The most exact variant that is expected to end in left_ns, with the reserve; otherwise the quickest. */
ladder_choice ladder_choose(const context_ladder *ladder, const ladder_times *times, double left_ns);
#endif
