/* plan/layout/planner.h - the state of a plan being created; private to this folder.
 *
 * A result of INLAY_NONE, NULL or false means out of memory, unless stated otherwise. */
#ifndef PLAN_PLANNER_H
#define PLAN_PLANNER_H
#include "plan/plan.h"
#include "inlay/execution.h"

struct planner {
    struct plan *plan;
    struct program *prog;
    inlay_value_info *infos;   /* [value_count] */
    bool again;                /* inference starts at the shapes of the previous plan */
    struct arena *scratch;     /* the program's */
    uint32_t *copies;          /* [value_count * domain_count] place of the value in the domain; INLAY_NONE: none */
    const plan_input *inputs;  /* the inputs that the plan is created for */
    const plan_input *wanted;  /* [output_count] domains of outputs; NULL: all in host memory */
    const uint32_t *output_of; /* [value_count] index of the first graph output with this value; INLAY_NONE: none */
    uint8_t *declined;         /* [offer_count] offers declined by specialize; NULL: none */
    inlay_diag declined_why;   /* the first reason */
    const inlay_run *run;      /* the run that waits for the plan; or NULL */
    inlay_diag *diag;
};

/* Reports "out of memory" with the name of the graph. */
inlay_status planner_no_memory(struct planner *planner);

/* The bytes of a value whose dims are all known; false: unknown, or overflow. */
bool plan_info_bytes(const inlay_value_info *info, size_t *out_bytes);
/* The same with another element type, if dtype is not INLAY_UNDEFINED. */
bool plan_info_bytes_as(const inlay_value_info *info, inlay_dtype dtype, size_t *out_bytes);
/* Starts inference: at the shapes of the previous plan, if there are any. */
bool planner_start_infos(struct planner *planner);
/* Copies the arrays of the value's info from scratch to memory of the program, and sets the value's state. */
bool planner_store_info(struct planner *planner, uint32_t value);
/* Sets the info of an input. dims: INLAY_RANK_UNKNOWN of them if it is not a tensor. */
bool planner_store_input(struct planner *planner, uint32_t value, inlay_dtype dtype, uint32_t rank,
                         const int64_t *dims);
/* Infers the shapes of the step's nodes and stores them. Nodes whose inputs are as for the previous plan keep their
 * outputs' shapes. */
INLAY_NODISCARD inlay_status planner_infer_step(struct planner *planner, const program_step *step);
/* Copies the infos to the plan, whose dynamic steps infer shapes at run time. */
bool planner_copy_infos(struct planner *planner);
/* Creates planning.first_infos and planning.first_states of the program, which all its plans start from. */
bool planner_store_constants(struct planner *planner);

/* Appends a place to the plan; returns its index. */
uint32_t planner_add_place(struct planner *planner, plan_place place);
/* Appends a step to the plan. */
plan_step *planner_add_step(struct planner *planner, uint32_t kind, const program_step *step);
/* Extends the lifetime of the place to the current step. */
void planner_extend_lifetime(struct planner *planner, uint32_t place);
/* Adds a place for constant host memory. */
uint32_t planner_add_data_place(struct planner *planner, const void *data, uint64_t bytes);
/* Adds a place for a value that is known only at run time. */
uint32_t planner_add_dynamic_place(struct planner *planner, uint32_t value);
/* The place of the value in `domain`; adds a COPY step if it is in another one. Between devices of two providers the
 * link decides (base/device_link.h): a view, one copy, or two through host memory. */
uint32_t planner_place_in(struct planner *planner, uint32_t value, uint32_t domain);
/* Creates a place for an output of a step: in the caller's memory if it is an output of the graph, otherwise in the
 * slab. dtype: another element type than the model's (INLAY_UNDEFINED = the model's). */
uint32_t planner_add_output_place(struct planner *planner, uint32_t value, uint32_t domain, inlay_dtype dtype);
/* Moves a host place to the slab of that domain if it shares memory with the host, so that bodies can read it there. */
void planner_share_with_device(struct planner *planner, uint32_t place, uint32_t domain);
/* The domain in which output k of the graph is wanted. */
uint32_t planner_output_domain(const struct planner *planner, uint32_t k);
/* Makes the value share a place. A slab place that now holds an output of the graph becomes that output's memory. */
void planner_share_place(struct planner *planner, uint32_t value, uint32_t place);
/* Adds copies of outputs to host memory, or to the domains where they are wanted. Outputs that stay in the slab
 * (strings) are kept until the run copies them. */
INLAY_NODISCARD inlay_status planner_place_outputs(struct planner *planner);
/* Assigns offsets in the slab of each domain. An asynchronous step may still use bytes that a later step writes; the
 * later step waits for it (exec/loop/bind.c). INLAY_LIMIT_EXCEEDED: more than max_run_bytes. */
INLAY_NODISCARD inlay_status planner_assign_offsets(struct planner *planner);

/* Moves the copies of asynchronous providers to the first step where their source is ready. Call after all steps are
 * added, before offsets are assigned. */
INLAY_NODISCARD inlay_status planner_hoist_copies(struct planner *planner);

/* Finds groups of steps that are worth running concurrently, and extends the lifetimes of their places to the whole
 * group. Call after all steps are added, before offsets are assigned. */
INLAY_NODISCARD inlay_status planner_find_concurrent_branches(struct planner *planner);

/* Checks what holds for a complete plan, as INLAY_CHECK(plan_check(plan)): returns true, or the process ends at the
 * condition that does not hold. Every step uses places within their lifetimes, which are those of its whole group if it
 * runs concurrently with others, and places that are live at once are disjoint. In plan_check.c. */
bool plan_check(const struct plan *plan);
#endif
