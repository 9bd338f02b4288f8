/* serve/retired.h - models that others have taken the place of, kept until their sequences are over: what a sequence
 * has begun with, it ends with. */
#ifndef SERVE_RETIRED_H
#define SERVE_RETIRED_H
#include "serve/model.h"

struct retired {
    pthread_mutex_t lock;
    struct model **models; /* [count] oldest first; a reference each */
    uint32_t count;
};

void retired_init(struct retired *retired);
void retired_deinit(struct retired *retired);
/* Takes over the reference; a model without sequences is let go. */
void retired_add(struct retired *retired, struct model *model);
/* A reference to the newest model of that name and version (0 = any) which has the sequence, or NULL. */
struct model *retired_find(struct retired *retired, const char *name, uint64_t version, const char *id);
/* Lets go those whose sequences have ended, or were not used for sequence_idle_ms. */
void retired_tidy(struct retired *retired);
/* Takes the oldest of that name (NULL = any) out; NULL: there is none. */
struct model *retired_take(struct retired *retired, const char *name);
/* How many there are, and their bytes. */
uint32_t retired_count(struct retired *retired, uint64_t *out_bytes);
#endif
