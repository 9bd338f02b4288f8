/* plan/program/build_call.h - the host's side of a call of compile or specialize: aligned constants, packed weights,
 * the engine cache, progress, and the reasons to stop. Internal to plan/program. */
#ifndef PLAN_BUILD_CALL_H
#define PLAN_BUILD_CALL_H
#include "plan/program/blob_cache.h"
#include "threads/run.h"

/* Regions that several threads compile at the same time, see region_builds_run(). */
typedef struct build_team {
    pthread_mutex_t lock; /* of env->progress */
    int32_t stop;         /* atomic: the status of env->progress if the user cancelled; otherwise INLAY_OK */
    uint32_t end;         /* atomic: position of the first region that failed; later ones need not be compiled */
} build_team;
/* Returns whether the region at the position is not needed any more. */
bool build_team_stopped(const build_team *team, uint32_t position);
/* Calls env->progress. team NULL: there is one thread. */
inlay_status build_team_report(build_team *team, const program_env *env, const char *what, uint32_t steps);

typedef struct build_call {
    run_compile_hooks hooks; /* handle of the request */
    struct program *program;
    const partition_provider *provider;
    struct step_weights **weights; /* receives the packs that the call takes; NULL: they are not streamed */
    const inlay_run *run; /* the run that waits for the call; NULL: none */
    uint64_t coming;      /* program_expected_bytes(), for the message of the limit */
    inlay_diag over;      /* set if the memory limit is exceeded */
    build_team *team;     /* NULL: no other region is being compiled */
    uint32_t position;    /* in the team */
    blob_slot slot;
} build_call;

/* key: of the engine cache; NULL: it is not used. */
void build_call_begin(build_call *call, struct program *program, const partition_provider *provider,
                      const inlay_run *run, const region_key *key);
/* Returns the file with the blob that the provider got, see blob_slot_close(). */
blob_map build_call_end(build_call *call);

/* Fields of both requests. */
#define BUILD_CALL_SET(call, request)                                                                                  \
    do {                                                                                                               \
        (request)->handle = &(call)->hooks;                                                                            \
        (request)->ctx = (call);                                                                                       \
        (request)->cache_blob = blob_data(&(call)->slot);                                                              \
        (request)->cache_bytes = blob_bytes(&(call)->slot);                                                            \
        (request)->store_begin = (call)->slot.active ? build_store_begin : NULL;                                       \
        (request)->store_write = (call)->slot.active ? build_store_write : NULL;                                       \
        (request)->store_end = (call)->slot.active ? build_store_end : NULL;                                           \
        (request)->progress = build_progress;                                                                          \
        (request)->poll = build_poll;                                                                                  \
    } while (0)
inlay_status build_store_begin(void *ctx, uint64_t bytes);
inlay_status build_store_write(void *ctx, const void *data, uint64_t bytes);
inlay_status build_store_end(void *ctx);
void build_progress(void *ctx, double fraction, const char *what);
inlay_status build_poll(void *ctx);
#endif
