#include "plan/program/build_call.h"
#include "plan/program/compile.h"
#include "inlay/plugin.h"

/* Checks `more` bytes against the session's memory limit. */
static inlay_status within_limit(build_call *call, uint64_t more)
{
    const program_env *env = call->program->env;

    if (env->memory.room == NULL ||
        env->memory.room(env->memory.room_ctx, more + packs_counted(call->program->packs).mapped_bytes, call->coming,
                         &call->over) > 0)
        return INLAY_OK;
    return INLAY_LIMIT_EXCEEDED;
}

static const void *align_for_region(void *ctx, uint32_t value, uint32_t alignment)
{
    return program_align_constant(((build_call *)ctx)->program, value, alignment);
}

static void release_constant(void *ctx, uint32_t value)
{
    const struct program *program = ((build_call *)ctx)->program;

    if (value < program->graph->value_count && program->graph->values[value].info.data != NULL)
        graph_blob_release_pages(program->model, program->graph->values[value].info.data,
                                 (size_t)program->graph->values[value].info.data_bytes);
}

static inlay_status take_pack(void *ctx, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                              uint32_t *out_known)
{
    build_call *call = ctx;
    inlay_status status = within_limit(call, call->program->env->stream == NULL ? bytes : 0);

    if (status == INLAY_OK)
        status = packs_take(call->program->packs, call->provider, key, key_bytes, bytes, out_data, out_known);
    if (status == INLAY_OK && call->weights != NULL && packs_is_mapped(call->program->packs, *out_data) &&
        !weight_stream_add(call->program->env->stream, call->weights, *out_data, bytes, STREAM_ALL))
        status = INLAY_OUT_OF_MEMORY;
    return status;
}

/* A result of a file that has changed must not be stored: its key is the hash of the earlier bytes. */
static inlay_status check_files(const build_call *call)
{
    return graph_files_check(call->program->model, NULL);
}

static void keep_pack(void *ctx, const void *data)
{
    if (check_files(ctx) == INLAY_OK)
        packs_keep(((build_call *)ctx)->program->packs, data);
}

static void divide_pack(void *ctx, const void *data, uint64_t bytes, uint32_t part_count)
{
    const build_call *call = ctx;
    const struct program *program = call->program;

    /* Out of memory: the page faults of a run read the parts. */
    if (call->weights != NULL &&
        (graph_blob_is_mapped(program->model, data, (size_t)bytes) || packs_is_mapped(program->packs, data)))
        (void)weight_stream_divide(program->env->stream, call->weights, data, bytes, part_count);
}

inlay_status build_store_begin(void *ctx, uint64_t bytes)
{
    return blob_store_begin(&((build_call *)ctx)->slot, bytes);
}

inlay_status build_store_write(void *ctx, const void *data, uint64_t bytes)
{
    return blob_store_write(&((build_call *)ctx)->slot, data, bytes);
}

inlay_status build_store_end(void *ctx)
{
    const inlay_status status = check_files(ctx);

    return status == INLAY_OK ? blob_store_end(&((build_call *)ctx)->slot) : status;
}

bool build_team_stopped(const build_team *team, uint32_t position)
{
    return __atomic_load_n(&team->stop, __ATOMIC_RELAXED) != INLAY_OK ||
           position > __atomic_load_n(&team->end, __ATOMIC_RELAXED);
}

inlay_status build_team_report(build_team *team, const program_env *env, const char *what, uint32_t steps)
{
    inlay_status status;

    if (env->progress == NULL)
        return INLAY_OK;
    if (team == NULL)
        return env->progress(env->progress_ctx, what, steps);
    (void)pthread_mutex_lock(&team->lock);
    status = team->stop;
    if (status == INLAY_OK) /* a cancelled session is not asked again */
        status = env->progress(env->progress_ctx, what, steps);
    __atomic_store_n(&team->stop, status, __ATOMIC_RELAXED);
    (void)pthread_mutex_unlock(&team->lock);
    return status;
}

void build_progress(void *ctx, double fraction, const char *what)
{
    const build_call *call = ctx;

    (void)fraction; /* the session's progress bar counts whole regions */
    (void)build_team_report(call->team, call->program->env, what, 0);
}

inlay_status build_poll(void *ctx)
{
    build_call *call = ctx;
    inlay_status status = within_limit(call, 0);

    if (status == INLAY_OK && call->run != NULL)
        status = run_poll(call->run);
    if (status == INLAY_OK && call->team != NULL && build_team_stopped(call->team, call->position))
        status = INLAY_CANCELLED;
    return status != INLAY_OK ? status : build_team_report(call->team, call->program->env, "compiling", 0);
}

void build_call_begin(build_call *call, struct program *program, const partition_provider *provider,
                      const inlay_run *run, const region_key *key)
{
    call->hooks = (run_compile_hooks){ .ctx = call,
                                       .align_constant = align_for_region,
                                       .release_constant = release_constant,
                                       .take_pack = take_pack,
                                       .keep_pack = keep_pack,
                                       .divide_pack = divide_pack };
    call->program = program;
    call->provider = provider;
    call->weights = NULL;
    call->run = run;
    call->coming = 0;
    call->team = NULL;
    call->position = 0;
    call->over = (inlay_diag)INLAY_DIAG_INIT;
    blob_slot_open(&call->slot, program->env, provider, key);
}

blob_map build_call_end(build_call *call)
{
    return blob_slot_close(&call->slot);
}

inlay_status program_specialize(struct program *program, const program_step *step, const inlay_run *run,
                                inlay_specialize_request *request, inlay_instance **out_instance, blob_map *out_blob,
                                inlay_diag *diag)
{
    const inlay_provider *table = step->provider->table;
    inlay_status status;
    build_call call;
    region_key key;

    *out_instance = NULL;
    if (step->has_key)
        key = region_key_with_shapes(&step->key, &program->snapshot, step->region, request);
    build_call_begin(&call, program, step->provider, run, step->has_key ? &key : NULL);
    BUILD_CALL_SET(&call, request);
    status = table->specialize(step->provider->state, step->compiled, request, out_instance, diag);
    *out_blob = build_call_end(&call);
    if (status == INLAY_OK && *out_instance == NULL)
        status = inlay_fail(diag, INLAY_INTERNAL, "provider %s: specialize succeeded without an instance",
                            step->provider->name);
    if (status == INLAY_OK)
        return INLAY_OK;
    *out_instance = NULL;
    blob_unmap(out_blob);
    if (call.over.code == INLAY_OK)
        return status;
    forward_diag(diag, &call.over);
    return INLAY_LIMIT_EXCEEDED;
}
