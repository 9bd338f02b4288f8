/* texts/decode/lane_output.h - what the output of a lane's run changes: the tokens and rows of its texts. Everything
 * is called under the decoder's lock. */
#ifndef TEXTS_LANE_OUTPUT_H
#define TEXTS_LANE_OUTPUT_H
#include "texts/decode/decoder.h"

/* The place of the states of the lane's texts. */
void lane_find_rows(const struct lane *lane, inlay_row *rows);

/* The lane's run has returned the outputs of its request: chooses the next token of each text that has read its prompt,
 * unless the run does not tell which of its guesses are right. Texts that end leave the lane. Writes the rows of the
 * others; returns whether these rows differ from the rows of the lane's states. */
bool lane_take_outputs(struct lane *lane, const decode_output *outputs, inlay_row *rows);
#endif
