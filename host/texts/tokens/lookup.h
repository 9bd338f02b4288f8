/* texts/tokens/lookup.h - guesses the next tokens of a text: those that followed its last tokens earlier in it. */
#ifndef TEXTS_LOOKUP_H
#define TEXTS_LOOKUP_H
#include <stddef.h>
#include <stdint.h>

/* Writes at most `most` guesses to out [most]: the tokens after the latest earlier occurrence of the last 4 tokens, or
 * else of the last 3 or 2. A guess beyond the end of the text continues as if the found passage repeated. Returns their
 * number; 0: no occurrence. */
size_t lookup_next(const int64_t *tokens, size_t count, size_t most, int64_t *out);
#endif
