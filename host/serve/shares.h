/* serve/shares.h - how much of a model each provider runs, for /metrics. */
#ifndef SERVE_SHARES_H
#define SERVE_SHARES_H
#include "inlay/inlay.h"

typedef struct provider_share {
    char name[64];
    uint32_t nodes;
    double part; /* of a run's time, as expected: 0 to 1 */
} provider_share;

enum { SHARES_MOST = 16 };

/* Fills in at most SHARES_MOST, and returns how many; 0 where the session does not tell. */
uint32_t shares_read(const inlay_session *session, provider_share *out_shares);
#endif
