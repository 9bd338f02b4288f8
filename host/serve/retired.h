/* serve/retired.h - models that others have taken the place of, kept until their sequences are over: what a sequence
 * has begun with, it ends with. */
#ifndef SERVE_RETIRED_H
#define SERVE_RETIRED_H
#include "serve/model.h"

typedef struct retired {
    pthread_mutex_t lock;
    model **models; /* [count] oldest first; a reference each */
    uint32_t count;
} retired;

void retired_init(retired *r);
void retired_deinit(retired *r);
/* Takes over the reference; a model without sequences is let go. */
void retired_add(retired *r, model *m);
/* A reference to the newest model of that name and version (0 = any) which has the sequence, or NULL. */
model *retired_find(retired *r, const char *name, uint64_t version, const char *id);
/* Lets go those whose sequences have ended, or were not used for sequence_idle_ms. */
void retired_tidy(retired *r);
/* Takes the oldest of that name (NULL = any) out; NULL: there is none. */
model *retired_take(retired *r, const char *name);
/* How many there are, and their bytes. */
uint32_t retired_count(retired *r, uint64_t *out_bytes);
#endif
