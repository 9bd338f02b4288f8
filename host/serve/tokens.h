/* serve/tokens.h - bearer tokens (RFC 6750) of a file. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H
#include "inlay/status.h"
#include <stdbool.h>

enum { TOKENS_MAX = 256, TOKEN_MAX_BYTES = 256 };

struct tokens {
    char (*texts)[TOKEN_MAX_BYTES]; /* [count] filled up with NUL; owned */
    uint32_t count;
};

/* Reads one token a line; empty lines and those that begin with # are none. path "" gives no tokens. A file that others
 * than its owner and group may read is refused. */
INLAY_NODISCARD inlay_status tokens_read(const char *path, struct tokens *out_tokens, inlay_diag *diag);
void tokens_deinit(struct tokens *tokens);
/* Whether the value of a header Authorization holds one of them, in a time that does not tell which letters are right.
 */
bool tokens_match(const struct tokens *tokens, const char *authorization);
#endif
