/* partition/assign/assign.h - from a choice to regions, for one graph and for all of a session.
 *
 *     partition.c one graph
 *     regions.c   what enters and leaves, copies
 *     whole.c     all graphs of a session: rules that hold over them together
 *     saved.c     plans written down and followed */
#ifndef PARTITION_ASSIGN_H
#define PARTITION_ASSIGN_H
#include "partition/search/search.h"

/* ------------------------------------------------------------------ partition.c */

/* Forms the regions as they were chosen, now that the homes of the request are others: what is copied, at which price.
 */
INLAY_NODISCARD inlay_status partition_form_again(const partition_job *job, inlay_diag *diag);

/* ------------------------------------------------------------------ regions.c */

/* Makes the regions of the choice, with their borders, copies and memory. */
INLAY_NODISCARD inlay_status partition_form_regions(struct problem *problem, const uint32_t *choice,
                                                    struct arena *arena, inlay_diag *diag);
#endif
