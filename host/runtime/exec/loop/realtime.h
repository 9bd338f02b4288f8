/* exec/loop/realtime.h - option realtime: the plan of a run is one that needs nothing of the system, and its memory is
 * locked. */
#ifndef EXEC_REALTIME_H
#define EXEC_REALTIME_H
#include "exec/run/run.h"

/* Checks each step of a plan that was bound just now, and locks the memory of the process, which loads all of its
 * pages. INLAY_UNSUPPORTED: a step cannot keep the promise of the option; the message names it. INLAY_LIMIT_EXCEEDED:
 * the system permits too little locked memory. Does nothing without the option. */
INLAY_NODISCARD inlay_status realtime_prepare(const struct runner *runner, const struct plan *plan, inlay_diag *diag);
/* Before a plan for other sizes is bound: INLAY_UNSUPPORTED with the option, if the context has a plan. */
INLAY_NODISCARD inlay_status realtime_forbid_growth(const struct runner *runner, inlay_diag *diag);
#endif
