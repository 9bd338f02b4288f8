/* plan/settle.h - which rewrites of the optimiser stay, once the providers have answered.
 *
 * Passes write operators that the file does not have, and a provider may know only what the file has. So:
 *     a node that a pass made, and that no provider may run, becomes again what it replaced;
 *     where a provider runs what was replaced but not what replaced it, both are assigned, and the cheaper stays: what a
 *         pass made, unless going back promises more than prices may be off;
 *     a saved plan that names nodes which a pass has replaced gets them back. */
#ifndef PLAN_SETTLE_H
#define PLAN_SETTLE_H
#include "plan/program.h"

/* Makes the programs of g and its bodies and assigns them; may change the graphs. Failures are partition_all's, of the
 * graphs as they are in the end; *out_program is then NULL. */
INLAY_NODISCARD inlay_status settle(graph *g, const program_env *env, program **out_program, inlay_diag *diag);

/* program.c: the same of the graphs as they are. A program that can't be assigned is there, too, for whoever wants to
 * know why. again: something was undone, so that rules may name what has gone. */
INLAY_NODISCARD inlay_status program_assign(graph *g, const program_env *env, bool again, program **out_program,
                                            inlay_diag *diag);
#endif
