/* texts/decode/lane.h - one lane of a decoder: the rows of its context, and its next run. Everything is called under
 * the decoder's lock. */
#ifndef TEXTS_LANE_H
#define TEXTS_LANE_H
#include "texts/decode/decoder.h"

/* Ends the lane's texts with the failure. */
void lane_fail(struct lane *lane, const inlay_diag *failure);

/* Replaces the rows of the lane's states by those of its texts, which are at `rows`. */
void lane_join(struct lane *lane, const inlay_row *rows);

/* Makes the lane's context, if it has none, with a row for the text that begins. */
INLAY_NODISCARD inlay_status lane_begin(struct lane *lane, inlay_diag *diag);

/* Sets the inputs of the lane's next run. */
INLAY_NODISCARD inlay_status lane_prepare(struct lane *lane, inlay_diag *diag);

/* Queues the lane's next run, if it has texts. It is submitted after the lock is released, since a short run may happen
 * within the submission. */
void lane_queue(struct lane *lane, struct lane **queue);
#endif
