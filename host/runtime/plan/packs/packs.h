/* plan/packs/packs.h - packed weights, cached between sessions: extension inlay.packs/1.
 *
 * A pack is identified by its creator (provider, build, settings, CPU) and by a key of the provider, which identifies
 * the content of the constant and the packed format. A pack is therefore never stale: different contents have a
 * different key. The packs of a model are in files named after its content and the providers. A session maps existing
 * files, and writes new packs to an additional one. Errors with files never fail a session. Within a process, sessions
 * of a model use the packs that the first one has in memory. */
#ifndef PLAN_PACKS_H
#define PLAN_PACKS_H
#include "partition/partition.h"

struct packs;

typedef struct packs_place {
    const char *dir;    /* a private folder of the user, which exists; NULL or "" = none */
    uint64_t max_bytes; /* of the folder; 0 = nothing is stored */
    /* Large packs are never in the heap, so that their pages can be given back: new ones are written to a file and
     * mapped from there, also beyond max_bytes; such a file is deleted with the session. Other sessions do not use
     * these packs. */
    bool streamed;
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
} packs_place;

/* Maps the stored packs for the model with content hash model_hash and for these providers (builds, options). NULL: no
 * folder, or out of memory; all functions below accept NULL. */
struct packs *packs_open(const packs_place *place, uint64_t model_hash, const partition_provider *providers,
                         uint32_t provider_count);
/* See inlay_ext_packs.take. INLAY_UNSUPPORTED: the pack cannot be stored. provider NULL: the host's own packs. */
inlay_status packs_take(struct packs *packs, const partition_provider *provider, const void *key, uint64_t key_bytes,
                        uint64_t bytes, void **out_data, uint32_t *out_known);
/* See inlay_ext_packs.keep. */
void packs_keep(struct packs *packs, const void *data);
/* Returns whether the pack at data is in a mapped file. */
bool packs_is_mapped(struct packs *packs, const void *data);
/* Call when no more packs will be created. Writes the new packs in a thread that gives way to others, and trims the
 * folder to its maximum size. The memory of packs must not be written afterwards; it stays valid until packs_close(),
 * which waits for the thread; packs that other sessions use stay until those sessions are closed, too. */
void packs_commit(struct packs *packs);
void packs_close(struct packs *packs);
/* In a child of fork(), for committed packs: the writer thread does not exist there. */
void packs_inherit(struct packs *packs);

/* Number of packs found, and of packs created and stored, since packs_open. */
typedef struct packs_count {
    uint32_t found, made;
    uint64_t mapped_bytes; /* of the packs found, unless they are streamed */
} packs_count;
packs_count packs_counted(const struct packs *packs);
#endif
