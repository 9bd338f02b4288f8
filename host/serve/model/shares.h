/* serve/model/shares.h - each provider's share of a model, for /metrics. */
#ifndef SERVE_SHARES_H
#define SERVE_SHARES_H
#include "inlay/inlay.h"
#include <stdbool.h>

typedef struct provider_share {
    char name[64];
    uint32_t nodes;
    double part; /* expected share of a run's time: 0 to 1 */
} provider_share;

/* Returns [*out_count] shares, which the caller frees; NULL if the session does not report them. */
provider_share *shares_read(const inlay_session *session, uint32_t *out_count);

/* The next provider from *index on that the session lacks because its plugin is in quarantine, with the reason in
 * `skipped`; false: none. Advances *index. */
bool shares_next_lost(const inlay_session *session, uint32_t *index, inlay_session_provider_info *out_info);
/* The providers that the session lacks and why, which the caller frees; NULL: it lacks none, or out of memory.
 * *out_for_all: one is in quarantine for all models, not only for this one. */
char *shares_lost(const inlay_session *session, bool *out_for_all);
#endif
