/* plan/packs/packs.h - what providers make of constants, kept between sessions: extension inlay.packs/1.
 *
 * A pack is known by who made it (provider, build, settings, CPU) and by a key of the provider's, which names the
 * content of the constant and what was made of it. So a pack is never stale: what would make another has another key.
 * Packs of a model lie in files that are named after its content and the providers; a session maps those that are
 * there, and writes what it had to make into one more. Trouble with files never fails a session. */
#ifndef PLAN_PACKS_H
#define PLAN_PACKS_H
#include "partition/partition.h"

struct packs;

typedef struct packs_place {
    const char *dir;                                          /* of the user's own, there; NULL or "" = none */
    uint64_t max_bytes;                                       /* of the folder; 0 = nothing is kept */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
} packs_place;

/* Maps what was kept for the model of that content by these providers (their builds, their options). NULL: there is no
 * folder, or no memory; all functions below take NULL for "none". */
struct packs *packs_open(const packs_place *place, uint64_t model_hash, const partition_provider *providers,
                         uint32_t provider_count);
/* See inlay_ext_packs.take. INLAY_UNSUPPORTED: there is no room for it in a file. provider NULL: the host's own. */
inlay_status packs_take(struct packs *packs, const partition_provider *provider, const void *key, uint64_t key_bytes,
                        uint64_t bytes, void **out_data, uint32_t *out_known);
/* See inlay_ext_packs.keep. */
void packs_keep(struct packs *packs, const void *data);
/* Nothing more will be made. What was kept is written, by a thread that only runs when nobody else wants to, and the
 * folder held to its size; packs_close waits for that. All memory stays until then, and is only read from now on. */
void packs_commit(struct packs *packs);
void packs_close(struct packs *packs);
/* In a child of fork(), of packs that are committed: the thread that writes is not there. */
void packs_inherit(struct packs *packs);

/* How many packs were found, and how many made anew and kept, since packs_open. */
typedef struct packs_count {
    uint32_t found, made;
    uint64_t mapped_bytes; /* of those found */
} packs_count;
packs_count packs_counted(const struct packs *packs);
#endif
