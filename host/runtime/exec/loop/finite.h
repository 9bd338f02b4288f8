/* exec/loop/finite.h - option check_finite: finds the node that makes the first NaN or infinity of a run.
 *
 * Each step runs one node (partition_rules.single_nodes). After the step its float outputs are scanned. A node makes a
 * NaN if an output has one and no value that another node computed and this one reads has one; it makes an infinity if
 * no value that it reads has an infinity or a NaN, so that masks of -inf are not findings. Such a node fails the run.
 * */
#ifndef EXEC_FINITE_H
#define EXEC_FINITE_H
#include "exec/run/run.h"

/* What is known about the values of the programs of one context. */
struct finite_check;

INLAY_NODISCARD inlay_status finite_check_create(struct finite_check **out_check, inlay_diag *diag);
void finite_check_destroy(struct finite_check *check); /* NULL is a no-op */
/* A run begins: nothing is known about its values. */
void finite_check_begin(struct finite_check *check);
/* Scans the outputs of a step that has just run. INLAY_RESULTS_DIFFER: its node made a NaN or an infinity; the message
 * names the node, the output, the index and the inputs. */
INLAY_NODISCARD inlay_status finite_check_step(struct finite_check *check, struct runner *runner, struct bound *bound,
                                               const bound_step *step, inlay_diag *diag);
#endif
