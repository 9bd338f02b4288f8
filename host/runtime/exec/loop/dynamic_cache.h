/* exec/loop/dynamic_cache.h - the state that a dynamic step caches between runs. */
#ifndef EXEC_DYNAMIC_CACHE_H
#define EXEC_DYNAMIC_CACHE_H
#include "exec/run/run.h"
#include "exec/values/input_signature.h"

typedef struct dynamic_cache dynamic_cache;
struct dynamic_cache {
    inlay_instance *instance;
    blob_map blob;             /* the file from which instance was built */
    input_signature signature; /* of the inputs that the instance was specialised for */
    struct arena arena;        /* output plans and dims */
    inlay_output_plan *outputs;
    inlay_value_state *shapes; /* [output_count] as inferred */
    uint64_t workspace_bytes, workspace_alignment;
    uint64_t timeline, signalled; /* of asynchronous providers: the fence of the step, and how often it was signalled */
    bool reads_device_data;       /* the output sizes depend on data in device memory, which must be read first */
    bool reads_device_data_known; /* a run has determined reads_device_data */
};

/* Frees the cache of the step. */
void dynamic_cache_destroy(bound_step *step);
#endif
