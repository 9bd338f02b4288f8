/* partition/assign/saved.h - follows saved plans; private to this folder. */
#ifndef PARTITION_SAVED_H
#define PARTITION_SAVED_H
#include "partition/assign/assign.h"

typedef struct saved_plan saved_plan;

/* Reads the plan that the rules name, and logs conditions that have changed since it was written. Close *out_plan also
 * after a failure. INLAY_NOT_FOUND: no such file; INLAY_INVALID_ARGUMENT: not a plan. */
INLAY_NODISCARD inlay_status saved_plan_open(const partition_job *main_job, saved_plan **out_plan, inlay_diag *diag);
void saved_plan_close(saved_plan *plan); /* NULL is a no-op */

/* Sets choice [node_count] and the prices of its offers from the plan. job->out must contain the offers. A node that is
 * missing in the plan or in the model, or that its provider no longer offers, is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status saved_plan_follow(const saved_plan *plan, const partition_job *job,
                                               const uint8_t *candidates, struct arena *scratch, uint32_t *choice,
                                               inlay_diag *diag);
/* Adds the names of the nodes that the plan assigns in one graph; the plan owns the names. False: out of memory. */
bool saved_plan_names(const saved_plan *plan, const char *path, names_table *out);
/* The same as partition_graph for the job, but follows the plan. In partition.c. */
INLAY_NODISCARD inlay_status partition_follow(const saved_plan *plan, const partition_job *job, inlay_diag *diag);
#endif
