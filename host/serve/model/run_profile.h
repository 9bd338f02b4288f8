/* serve/model/run_profile.h - the times of the steps of one run, for the spans of sampled requests.
 *
 * Only runs with a request that wants it (is_profiled) are profiled. The sampled requests of a batch share the
 * profile. */
#ifndef SERVE_RUN_PROFILE_H
#define SERVE_RUN_PROFILE_H
#include "serve/model/model.h"
#include "base/arena.h"

typedef struct run_profile {
    atomic_uint refs;
    uint32_t part_count;
    struct arena arena; /* of the steps and their names */
    struct {
        inlay_profile_event *steps; /* [step_count] in the order in which they ended */
        uint32_t step_count;
    } parts[]; /* the stages of an ensemble, or the run */
} run_profile;

/* Profiles the next run of the instance if one of its first `count` jobs wants it. NULL: it does not, or there is no
 * memory. */
run_profile *run_profile_begin(const struct model *model, struct instance *instance, uint32_t count);
/* Reads the profile unless the run has failed, and ends profiling. NULL is a no-op. */
void run_profile_end(const struct model *model, struct instance *instance, run_profile *profile, bool ok);
run_profile *run_profile_ref(run_profile *profile);
void run_profile_unref(run_profile *profile); /* NULL is a no-op */
#endif
