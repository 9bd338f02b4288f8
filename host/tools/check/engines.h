/* check/engines.h - the budget of compiles, and the engine cache that the groups of a check share.
 *
 * A check compiles hundreds of cases, which takes minutes if a compile takes a second. So the time of compiles is
 * measured, without the time for which they wait for a CPU, each group has a share of the budget, and a case beyond it
 * is left out: harness_open() then returns INLAY_BUSY in phase "budget". Blobs that compile stores are offered again to
 * the same case in later groups. */
#ifndef CHECK_ENGINES_H
#define CHECK_ENGINES_H
#include "base/arena.h"
#include "check/check.h"
#include "check/loaded.h"
#include "check/process.h"

enum { ENGINE_FAILS_NOT, ENGINE_FAILS_BEGIN, ENGINE_FAILS_WRITE, ENGINE_FAILS_END };

/* Replaces the cache in tests of the cache itself: what compile gets, and what it stored. */
struct engine_probe {
    const void *blob; /* NULL: none */
    uint64_t blob_bytes;
    uint32_t fails; /* ENGINE_FAILS_*: the function that fails, as if the disk were full */
    void *stored;   /* [stored_bytes] in the arena; NULL: nothing was stored */
    uint64_t stored_bytes;
    struct arena arena;
};

/* A compile of the provider under check. */
struct engine_call {
    struct check *check;
    const loaded_provider *provider;
    struct engine_probe *probe; /* or NULL */
    bool is_kept;               /* the blob is stored for later compiles, under this key */
    uint64_t key;
    char *stored; /* [stored_bytes] the pieces so far; owned */
    uint64_t stored_bytes, stored_room;
    process_clock begin;
    bool is_storing; /* between store_begin and store_end */
};

/* May this case be compiled? Counts it as left out if not. */
bool engines_may_compile(struct check *check, const loaded_provider *provider);
/* May no further case be compiled? */
bool engines_are_spent(const struct check *check);
/* Sets the fields of the request that belong to the cache. The blob is in the arena. key identifies the case. */
void engines_begin(struct check *check, const loaded_provider *provider, uint64_t key, struct arena *arena,
                   struct engine_call *call, inlay_compile_request *request);
void engines_end(struct engine_call *call);
/* The functions progress and poll of a request; ctx is a struct engine_call. */
void engines_progress(void *ctx, double fraction, const char *what);
inlay_status engines_poll(void *ctx);
/* Returns true if another process of this check has seen the same fingerprint. The first process stores it. */
bool engines_same_print(struct check *check, const loaded_provider *provider);
/* Writes a line if cases were left out. */
void engines_report(struct check *check);

/* The functions of a provider for the cache, which tests may lack. */
inlay_status engines_fingerprint(const loaded_provider *provider, inlay_fingerprint *out, inlay_diag *diag);
inlay_status engines_verdict(const loaded_provider *provider, const void *blob, uint64_t bytes, uint32_t *out_verdict,
                             inlay_diag *diag);
#endif
