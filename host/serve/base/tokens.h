/* serve/base/tokens.h - bearer tokens (RFC 6750) from a file. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H
#include "inlay/status.h"
#include <pthread.h>
#include <stdbool.h>

enum { TOKENS_MAX = 256, TOKEN_MAX_BYTES = 256 };

struct tokens {
    pthread_rwlock_t lock;          /* as {0}: not held */
    char (*texts)[TOKEN_MAX_BYTES]; /* [count] padded with NUL; owned */
    uint32_t count;
};

/* Reads one token per line; empty lines and lines that begin with # are skipped. path "" gives no tokens. A file that
 * users other than its owner and group may read is refused. */
INLAY_NODISCARD inlay_status tokens_read(const char *setting, const char *path, struct tokens *out_tokens,
                                         inlay_diag *diag);
/* Reads the file again, while other threads use the tokens. If the file cannot be read or has no token, the tokens
 * remain unchanged: without tokens the server would be open to everyone. */
INLAY_NODISCARD inlay_status tokens_reload(struct tokens *tokens, const char *setting, const char *path,
                                           inlay_diag *diag);
void tokens_deinit(struct tokens *tokens);
/* Whether there are none. */
bool tokens_are_none(struct tokens *tokens);
/* Whether the value of an Authorization header contains one of the tokens. The time of the comparison does
 * not depend on the bytes. */
bool tokens_match(struct tokens *tokens, const char *authorization);
#endif
