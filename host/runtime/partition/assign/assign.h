/* partition/assign/assign.h - from chosen offers to regions, for one graph and for all graphs of a session.
 *
 * - partition.c: one graph
 * - regions.c: boundaries of regions, and copies
 * - assign_session.c: all graphs of a session, with the rules that hold for them together
 * - saved.c: writes and follows saved plans */
#ifndef PARTITION_ASSIGN_H
#define PARTITION_ASSIGN_H
#include "partition/search/search.h"

/* ------------------------------------------------------------------ partition.c */

/* Forms the regions of the same choice again after the boundary placements of the request have changed: updates copies
 * and their prices. */
INLAY_NODISCARD inlay_status partition_form_again(const partition_job *job, inlay_diag *diag);

/* ------------------------------------------------------------------ regions.c */

/* Forms the regions of the choice, with their boundaries, copies and memory. */
INLAY_NODISCARD inlay_status partition_form_regions(struct problem *problem, const uint32_t *choice,
                                                    struct arena *arena, inlay_diag *diag);
#endif
