/* plan/create/settle.h - which rewrites of the optimiser stay, once the providers have answered.
 *
 * Passes write operators that the file does not have, and a provider may know only what the file has. So:
 *     a node that a pass made, and that no provider may run, becomes again what it replaced;
 *     bodies of a node that a provider would take whole are as they were in the file, where it does not know what
 * passes made of them; where a provider runs what was replaced but not what replaced it, both are assigned, and the
 * cheaper stays: what a pass made, unless going back promises more than prices may be off; a saved plan that names
 * nodes which a pass has replaced gets them back. */
#ifndef PLAN_SETTLE_H
#define PLAN_SETTLE_H
#include "plan/program.h"

/* Makes the programs of g and its bodies and assigns them; may change the graphs. Failures are partition_all's, of the
 * graphs as they are in the end; *out_program is then NULL. again: see program_assign. */
INLAY_NODISCARD inlay_status settle(graph *g, const program_env *env, bool again, program **out_program,
                                    inlay_diag *diag);
/* After a compilation of p and its bodies that ended with nodes that nobody runs any more (program.stuck): puts back
 * what passes replaced by them. The programs are then to be made anew; false: there was nothing to put back. */
bool settle_stuck(program *p);

/* assign.c: the same of the graphs as they are. A program that can't be assigned is there, too, for whoever wants to
 * know why. again: something was undone, so that rules may name what has gone. */
INLAY_NODISCARD inlay_status program_assign(graph *g, const program_env *env, bool again, program **out_program,
                                            inlay_diag *diag);
#endif
