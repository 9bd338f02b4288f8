/* serve/shares.h - each provider's share of a model, for /metrics. */
#ifndef SERVE_SHARES_H
#define SERVE_SHARES_H
#include "inlay/inlay.h"

typedef struct provider_share {
    char name[64];
    uint32_t nodes;
    double part; /* expected share of a run's time: 0 to 1 */
} provider_share;

enum { SHARES_MOST = 16 };

/* Writes at most SHARES_MOST shares and returns their number; 0 if the session does not report them. */
uint32_t shares_read(const inlay_session *session, provider_share *out_shares);
#endif
