/* serve/repository/retired.h - replaced models that are kept until their sequences end: a sequence ends with the
 * model that it began with. */
#ifndef SERVE_RETIRED_H
#define SERVE_RETIRED_H
#include "serve/model/model.h"

struct retired {
    pthread_mutex_t lock;
    struct model **models; /* [count] oldest first; one reference each */
    uint32_t count;
};

void retired_init(struct retired *retired);
void retired_deinit(struct retired *retired);
/* Takes the reference; releases a model without sequences at once. */
void retired_add(struct retired *retired, struct model *model);
/* A reference to the newest model of that name and version (0 = any) that has the sequence, or NULL. */
struct model *retired_find(struct retired *retired, const char *name, uint64_t version, const char *id);
/* Releases models whose sequences have ended, or were idle for sequence_idle_ms. */
void retired_collect(struct retired *retired);
/* Removes and returns the oldest model of that name (NULL = any); NULL: none. */
struct model *retired_take(struct retired *retired, const char *name);
/* The number of models, and their bytes. */
uint32_t retired_count(struct retired *retired, uint64_t *out_bytes);
#endif
