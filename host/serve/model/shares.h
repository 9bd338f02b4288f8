/* serve/model/shares.h - each provider's share of a model, for /metrics. */
#ifndef SERVE_SHARES_H
#define SERVE_SHARES_H
#include "inlay/inlay.h"

typedef struct provider_share {
    char name[64];
    uint32_t nodes;
    double part; /* expected share of a run's time: 0 to 1 */
} provider_share;

/* Returns [*out_count] shares, which the caller frees; NULL if the session does not report them. */
provider_share *shares_read(const inlay_session *session, uint32_t *out_count);

/* The next provider from *index on that the session lacks because its plugin is in quarantine; NULL: none. Advances
 * *index. */
const char *shares_next_lost(const inlay_session *session, uint32_t *index);
#endif
