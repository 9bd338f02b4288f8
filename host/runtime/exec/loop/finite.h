/* exec/loop/finite.h - option check_finite: finds the node that makes the first NaN or infinity of a run.
 *
 * Each step runs one node (partition_rules.single_nodes). After the step its float outputs are scanned. A node makes a
 * NaN if an output has a NaN and none of its inputs that other nodes computed has one. A node makes an infinity if an
 * output has one and no input has an infinity or a NaN, so that masks of -inf are not findings. Such a node fails the
 * run.
 * */
#ifndef EXEC_FINITE_H
#define EXEC_FINITE_H
#include "exec/run/run.h"

/* An observer of the runs of one context, which fails a step with INLAY_RESULTS_DIFFER: its node made a NaN or an
 * infinity; the message names the node, the output, the index and the inputs. */
INLAY_NODISCARD inlay_status finite_check_create(run_observer **out_check, inlay_diag *diag);
#endif
