/* texts/grammar/token_cover.h - masks that many states of grammars share.
 *
 * Within a string of JSON almost every character leads to the same state again. The tokens that consist of such
 * characters depend on the set of characters only, not on the grammar, so their mask is made once for a vocabulary; of
 * a state, only the other tokens are followed. A string of limited length counts its characters: there the characters
 * have to lead from one state to the next, for as many states as the tokens of the mask have characters. */
#ifndef TEXTS_TOKEN_COVER_H
#define TEXTS_TOKEN_COVER_H
#include "texts/grammar/token_order.h"

/* The masks of a vocabulary. Several threads may use it. */
struct token_covers;

/* order: borrowed; vocabulary: number of bits of masks. NULL: out of memory. */
struct token_covers *token_covers_create(const token_order *order, size_t vocabulary);
void token_covers_destroy(struct token_covers *covers); /* NULL is a no-op */

/* Fills the empty mask for the state path[0], as token_order_walk() does. false: the state has no such set of
 * characters, or memory ran out, and the mask is still empty. */
bool token_covers_walk(struct token_covers *covers, struct grammar *grammar, uint32_t *path, token_mask *mask);
#endif
