/* session/limit.c - the limit of a session's host memory (option memory_limit, host=BYTES).
 *
 * Memory held between runs is the sum of weights that are mapped from the file, mapped packed weights, and the growth
 * of the malloc heap while the session and its plans are created. The first two are counted, the last is measured. Runs
 * count their memory separately (exec/values/run_memory.h).
 *
 * If the weights exceed the limit, they are read from their files during runs (plan/stream/stream.h). The memory that
 * the limit leaves for these weights counts as memory of the session. */
#include "base/heap.h"
#include "base/memory.h"
#include "config/checks.h"
#include "session/session.h"
#include "inlay/check.h"
#include "kit/blocks.h"
#include <stdlib.h>
#include <string.h>

uint64_t session_host_limit(const inlay_options *options)
{
    option_pair pair;
    uint64_t bytes = 0;

    for (uint32_t i = 0; options_pair(options, OPTION_memory_limit, i, &pair); i++)
        if (pair.key_bytes == 4 && memcmp(pair.key, "host", 4) == 0 && option_bytes(pair.value, &bytes))
            return bytes;
    return 0;
}

/* Bytes of weights in mapped files. Weights that providers copy are released and not counted
 * (program_release_pages). */
static uint64_t mapped_bytes(const struct graph *graph)
{
    uint64_t sum = 0;

    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        if (info->data != NULL && graph_blob_is_mapped(graph->model, info->data, (size_t)info->data_bytes))
            sum += info->data_bytes;
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            sum += mapped_bytes(graph->nodes[node]->bodies[b].graph);
    return sum;
}

/* Bytes of packs of weights in the blocks of other formats. */
static uint64_t block_bytes(const struct graph *graph)
{
    uint64_t sum = 0;

    for (uint32_t node = 0; node < graph->node_count; node++) {
        const inlay_node_info *info = &graph->nodes[node]->info;

        if (info->input_count > 0 && info->inputs[0] != INLAY_NONE)
            sum += kit_blocks_unpacked_bytes(info, graph->values[info->inputs[0]].info.data_bytes);
    }
    return sum;
}

/* Regions are divided so that this number of them fits: the region that runs, regions that are read ahead, and regions
 * that stay in memory. */
enum { REGIONS_IN_MEMORY = 16 };

inlay_status session_limit_begin(inlay_session *session, bool stream, inlay_diag *diag)
{
    uint64_t mapped;

    if (session->env.memory.held_bytes == NULL)
        return INLAY_OK;
    mapped = mapped_bytes(session->model->main);
    if ((stream || mapped + block_bytes(session->model->main) > session->limits.host) && session->env.stream == NULL) {
        session->env.stream = weight_stream_create();
        if (session->env.stream == NULL)
            return no_memory(diag, "for a session");
        session->env.packs.streamed = true;
        session->env.build_threads = 1; /* each holds the weights of a layer, and their packed form */
        session->rules.max_weight_bytes = session->limits.host / REGIONS_IN_MEMORY + 1;
    }
    if (session->env.stream != NULL)
        graph_model_release_pages(session->model);
    __atomic_store_n(session->env.memory.held_bytes, session->env.stream == NULL ? mapped : 0, __ATOMIC_RELAXED);
    return INLAY_OK;
}

uint64_t session_limit_room(void *ctx, uint64_t more, uint64_t coming, inlay_diag *over)
{
    const inlay_session *session = ctx;
    uint64_t required;

    INLAY_CHECK(session->env.memory.held_bytes != NULL && session->limits.host > 0);
    required = __atomic_load_n(session->env.memory.held_bytes, __ATOMIC_RELAXED) + more;
    (void)heap_count(&required, session->limits.heap_before, 0);
    if (required < session->limits.host)
        return session->limits.host - required;
    if (over != NULL)
        (void)run_memory_limit_error(session->limits.memory, "the model", required + coming, true, over);
    return 0;
}

/* The plan of a model whose inputs have fixed shapes. NULL: a shape is not fixed, or planning failed; a run will report
 * the error. */
static struct plan *only_plan(const inlay_session *session)
{
    const struct graph *graph = session->model->main;
    plan_input *key = calloc((size_t)graph->input_count + 1, sizeof *key);
    struct arena arena = { 0 };
    struct plan *plan = NULL;
    bool fixed = key != NULL;

    for (uint32_t i = 0; fixed && i < graph->input_count; i++) {
        const inlay_value_info *input = &graph->values[graph->inputs[i]].info;
        int64_t *dims =
            arena_array(&arena, (size_t)(input->rank == INLAY_RANK_UNKNOWN ? 0 : input->rank) + 1, sizeof *dims);

        fixed = input->kind == INLAY_VALUE_TENSOR && input->rank != INLAY_RANK_UNKNOWN && dims != NULL;
        for (uint32_t d = 0; fixed && d < input->rank; d++) {
            dims[d] = input->dims[d].value;
            fixed = input->dims[d].kind == INLAY_DIM_FIXED;
        }
        key[i] = (plan_input){ .dtype = input->dtype, .rank = input->rank, .dims = dims, .domain = INLAY_DOMAIN_HOST };
    }
    if (fixed && plan_get(session->main, key, graph->input_count, NULL, &plan, NULL) != INLAY_OK)
        plan = NULL;
    arena_deinit(&arena);
    free(key);
    return plan;
}

/* Estimated bytes that a context stores for a plan: calls and addresses, about the size of the plan. Doubled, so that
 * the minimum limit in a message is sufficient. */
static uint64_t context_bytes(const struct plan *plan)
{
    return 2 * plan->arena.total_bytes + (1 << 16);
}

static uint64_t spare_bytes(void *ctx)
{
    return run_memory_spare(ctx);
}

/* The part of the limit that is not used for weights: partly used pages at the ends of weights, page tables, and data
 * that the system reads ahead. */
static uint64_t margin(const inlay_session *session)
{
    return session->limits.host / 16;
}

/* Sets the positions of the program's weights from `next` on; returns the next position. */
static uint32_t place_weights(const struct program *program, uint32_t next, bool repeated)
{
    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];
        const bool repeats = strcmp(step->node->info.op_type.data, "If") != 0;

        if (step->weights != NULL)
            weight_stream_place(program->env->stream, step->weights, next++, repeated);
        for (uint32_t k = 0; step->provider == NULL && k < step->node->body_count; k++)
            next = place_weights(step->bodies[k], next, repeated || repeats);
    }
    return next;
}

/* Adds the memory of streamed weights to the held bytes; `run` bytes are needed for a run, 0 if sizes are open.
 * INLAY_LIMIT_EXCEEDED: the weights of the largest step do not fit; *out_required is the minimum limit. */
static inlay_status begin_stream(inlay_session *session, uint64_t run, uint64_t *out_required)
{
    enum { OPEN_SHARE = 8 }; /* of the limit, which weights leave to the plans and runs of open sizes */
    struct weight_stream *stream = session->env.stream;
    const uint64_t held = __atomic_add_fetch(session->env.memory.held_bytes, margin(session), __ATOMIC_RELAXED);
    const uint64_t largest = weight_stream_largest(stream), for_runs = run == 0 ? session->limits.host / OPEN_SHARE : 0;
    uint64_t room;

    *out_required = held - margin(session) + run + largest;
    *out_required += *out_required / 15 + 1; /* its margin */
    if (held + run + largest > session->limits.host)
        return INLAY_LIMIT_EXCEEDED;
    (void)place_weights(session->main, 0, false);
    room = session->limits.host - held - run;
    room = room > largest + for_runs ? room - for_runs : largest;
    (void)__atomic_add_fetch(session->env.memory.held_bytes,
                             weight_stream_begin(stream, room, spare_bytes, session->limits.memory), __ATOMIC_RELAXED);
    return INLAY_OK;
}

inlay_status session_limit_check(inlay_session *session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint64_t required, run;
    struct plan *plan;

    if (session->env.memory.held_bytes == NULL)
        return INLAY_OK;
    (void)heap_count(session->env.memory.held_bytes, session->limits.heap_before, 0);
    (void)__atomic_add_fetch(session->env.memory.held_bytes, packs_counted(session->main->packs).mapped_bytes,
                             __ATOMIC_RELAXED);
    plan = only_plan(session);
    run = plan != NULL ? plan_run_bytes(plan) + context_bytes(plan) : 0;
    if (session->env.stream != NULL)
        status = begin_stream(session, run, &required);
    else if (!run_memory_fits(session->limits.memory, run, 0, &required))
        status = INLAY_LIMIT_EXCEEDED;
    if (status == INLAY_LIMIT_EXCEEDED) {
        if (session->limits.least == 0 || required < session->limits.least)
            session->limits.least = required;
        status = run_memory_limit_error(session->limits.memory,
                                        plan != NULL ? "the model" : "the model, excluding the memory of runs,",
                                        session->limits.least, false, diag);
    }
    plan_unref(plan);
    return status;
}
