/* plan/layout/planner.h - a plan while it is made: shapes.c, places.c and plan.c work on it, and nobody else.
 *
 * Functions that return INLAY_NONE, NULL or false have run out of memory. */
#ifndef PLAN_PLANNER_H
#define PLAN_PLANNER_H
#include "plan/plan.h"

struct planner {
    struct plan *plan;
    struct program *prog;
    inlay_value_info *infos;   /* [value_count] */
    struct arena *scratch;     /* the program's */
    uint32_t *copies;          /* [value_count * domain_count] place of the value in the domain, INLAY_NONE */
    const plan_input *inputs;  /* that the plan is for */
    const plan_input *wanted;  /* [output_count] the domains that outputs are wanted in; NULL: all at home */
    const uint32_t *output_of; /* [value_count] first graph output that the value is, INLAY_NONE */
    uint8_t *declined;         /* [offer_count] offers that specialize declined; NULL: none */
    inlay_diag declined_why;   /* what the first of them said */
    inlay_diag *diag;
};

/* "No memory", with the name of the graph. */
inlay_status planner_no_memory(struct planner *planner);

/* ------------------------------------------------------------------ shapes.c */

/* The bytes of a value whose dims are all known; false: they are not, or they are too many. */
bool plan_info_bytes(const inlay_value_info *info, size_t *out_bytes);
/* The same with elements of another type, where dtype is not INLAY_UNDEFINED. */
bool plan_info_bytes_as(const inlay_value_info *info, inlay_dtype dtype, size_t *out_bytes);
/* Copies what the info of value v points to out of scratch into the plan's arena, and fills the value's state. */
bool planner_settle(struct planner *planner, uint32_t v);
/* The program's first_infos and first_states, once: what constants are does not depend on shapes. */
bool planner_settle_constants(struct planner *planner);

/* ------------------------------------------------------------------ places.c */

uint32_t planner_place(struct planner *planner, plan_place place);
plan_step *planner_step(struct planner *planner, uint32_t kind, const program_step *step);
/* The step that is being made uses the place. */
void planner_touch(struct planner *planner, uint32_t place);
uint32_t planner_data_place(struct planner *planner, const void *data, uint64_t bytes);
uint32_t planner_dynamic_place(struct planner *planner, uint32_t v);
/* The place of value v in `domain`, by a COPY step if it lies elsewhere. Two devices that know nothing of each other
 * meet in host memory. */
uint32_t planner_place_in(struct planner *planner, uint32_t v, uint32_t domain);
/* Where output v of a step lies, dtype: of other elements than the model's (INLAY_UNDEFINED = not): in the caller's
 * memory when it is an output of the graph, otherwise in the slab. */
uint32_t planner_output_place(struct planner *planner, uint32_t v, uint32_t domain, inlay_dtype dtype);
/* What lies in the host's slab lies where that domain knows it, too, if it can: bodies read it there. */
void planner_lend(struct planner *planner, uint32_t place, uint32_t domain);
/* The domain in which output k of the graph is wanted. */
uint32_t planner_wanted(const struct planner *planner, uint32_t k);
/* Makes value v share a place. A slab place that now holds an output of the graph becomes that output's memory. */
void planner_share_place(struct planner *planner, uint32_t v, uint32_t place);
/* Outputs that a device made come home, or go where they are wanted; those in the slab (texts) stay untouched until the
 * run copies them. */
INLAY_NODISCARD inlay_status planner_keep_outputs(struct planner *planner);
/* Lays out the slab of each domain. Steps behind the run loop's back may still be using bytes that others are to write:
 * these wait for them (exec/loop/bind.c). INLAY_LIMIT_EXCEEDED: more than max_run_bytes. */
INLAY_NODISCARD inlay_status planner_lay_out(struct planner *planner);

/* ------------------------------------------------------------------ early.c */

/* Moves the copies of asynchronous providers up to where what they move is there. All steps are there, and the slab is
 * not laid out yet. */
INLAY_NODISCARD inlay_status planner_begin_early(struct planner *planner);

/* ------------------------------------------------------------------ waves.c */

/* Finds the steps that are worth to be run side by side, and lets what they use live all through their wave. All steps
 * are there, and the slab is not laid out yet. */
INLAY_NODISCARD inlay_status planner_find_waves(struct planner *planner);
#endif
