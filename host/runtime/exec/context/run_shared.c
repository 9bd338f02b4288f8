/* exec/context/run_shared.c - creates and destroys the state shared by the runners of one context. */
#include "exec/context/run_shared.h"
#include "exec/control/host_node.h"
#include "exec/dynamic/dynamic.h"
#include "exec/loop/evict.h"
#include "exec/loop/observe.h"

static char *string_alloc(void *ctx, uint64_t bytes)
{
    run_shared *shared = ctx;
    char *text;

    pthread_mutex_lock(&shared->texts.lock);
    text = bytes <= PTRDIFF_MAX ? arena_alloc(&shared->texts.arena, (size_t)bytes) : NULL;
    pthread_mutex_unlock(&shared->texts.lock);
    return text;
}

static const run_calls calls = { .host_step = host_node_run,
                                 .dynamic_step = dynamic_run,
                                 .make_room = evict_device_values };

inlay_status run_shared_init(run_shared *shared, uint32_t max_threads, uint64_t max_bytes, run_memory *memory)
{
    static const uint32_t never;

    *shared = (run_shared){
        .diag = INLAY_DIAG_INIT, .tensors.max_bytes = max_bytes, .tensors.memory = memory, .calls = &calls
    };
    shared->run = (inlay_run){ .cancel = &never,
                               .max_threads = max_threads,
                               .ctx = shared,
                               .output_alloc = dynamic_output_alloc,
                               .string_alloc = string_alloc };
    return pthread_mutex_init(&shared->texts.lock, NULL) == 0 ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

void run_shared_deinit(run_shared *shared)
{
    observers_destroy(shared);
    if (shared->hang.abandoned)
        return;
    run_shared_drop(shared);
    arena_deinit(&shared->texts.arena);
    (void)pthread_mutex_destroy(&shared->texts.lock);
}
