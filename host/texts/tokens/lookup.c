#include "texts/tokens/lookup.h"
#include <string.h>

enum { LONGEST = 4, SHORTEST = 2 };

size_t lookup_next(const int64_t *tokens, size_t count, size_t most, int64_t *out)
{
    for (size_t length = LONGEST; length >= SHORTEST; length--) {
        if (count < length + 1)
            continue;
        for (size_t at = count - length; at-- > 0;) { /* where an occurrence begins */
            if (memcmp(tokens + at, tokens + count - length, length * sizeof *tokens) != 0)
                continue;
            for (size_t i = 0; i < most; i++)
                out[i] = at + length + i < count ? tokens[at + length + i] : out[at + length + i - count];
            return most;
        }
    }
    return 0;
}
