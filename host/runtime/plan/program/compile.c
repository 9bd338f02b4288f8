/* plan/program/compile.c - compiles the regions of a program. */
#include "plan/program/compile.h"
#include "base/among.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "partition/cost/cost.h"
#include "plan/program/blob_cache.h"
#include "plan/program/borders.h"
#include "plan/program/declined.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

/* Operators whose output is their input with another shape; the planner executes them without a copy. */
static bool is_view(const graph_node *node)
{
    return strcmp(node->info.domain.data, "ai.onnx") == 0 && node->info.output_count == 1 &&
           is_among(node->info.op_type.data, "Reshape Flatten Squeeze Unsqueeze Identity");
}

/* ------------------------------------------------------------------ compiling */

/* The ctx of compile's callbacks and hooks. */
typedef struct compile_call {
    blob_slot slot; /* first, because store_cache gets the same ctx pointer as progress and poll */
    run_compile_hooks hooks;
    struct program *program;
    const partition_provider *provider;
    uint64_t coming; /* program_expected_bytes() */
    inlay_diag over; /* set if the memory limit is exceeded */
} compile_call;

/* Checks `more` bytes against the session's memory limit. */
static inlay_status within_limit(compile_call *call, uint64_t more)
{
    const program_env *env = call->program->env;

    if (env->room == NULL || env->room(env->room_ctx, more + packs_counted(call->program->packs).mapped_bytes,
                                       call->coming, &call->over) > 0)
        return INLAY_OK;
    return INLAY_LIMIT_EXCEEDED;
}

static const void *align_for_region(void *ctx, uint32_t value, uint32_t alignment)
{
    return program_align_constant(((compile_call *)ctx)->program, value, alignment);
}

static void release_constant(void *ctx, uint32_t value)
{
    const struct program *program = ((compile_call *)ctx)->program;

    if (value < program->graph->value_count && program->graph->values[value].info.data != NULL)
        graph_blob_release_pages(program->model, program->graph->values[value].info.data,
                                 (size_t)program->graph->values[value].info.data_bytes);
}

static inlay_status take_pack(void *ctx, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                              uint32_t *out_known)
{
    compile_call *call = ctx;
    const inlay_status status = within_limit(call, bytes);

    return status != INLAY_OK
               ? status
               : packs_take(call->program->packs, call->provider, key, key_bytes, bytes, out_data, out_known);
}

static void keep_pack(void *ctx, const void *data)
{
    packs_keep(((compile_call *)ctx)->program->packs, data);
}

static void report_progress(void *ctx, double fraction, const char *what)
{
    const struct program *program = ((compile_call *)ctx)->program;

    (void)fraction; /* the session's progress bar counts whole regions */
    if (program->env->progress != NULL)
        (void)program->env->progress(program->env->progress_ctx, what, 0);
}

static inlay_status check_limit_and_progress(void *ctx)
{
    const struct program *program = ((compile_call *)ctx)->program;
    const inlay_status status = within_limit(ctx, 0);

    return status != INLAY_OK || program->env->progress == NULL
               ? status
               : program->env->progress(program->env->progress_ctx, "compiling", 0);
}

/* Releases the file pages of the region's constants that the provider has copied. fates[value]: what the provider did
 * with the constant (INLAY_CONST_*); reset for the next region. */
static void forget_constants(const struct program *program, const partition_region *region, uint8_t *fates)
{
    for (uint32_t k = 0; k < region->node_count; k++) {
        const inlay_node_info *node = &program->graph->nodes[region->nodes[k]]->info;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t value = node->inputs[i];
            if (value == INLAY_NONE || fates[value] == INLAY_CONST_BORROWED)
                continue;
            program_release_pages(program, &program->graph->values[value].info);
            fates[value] = INLAY_CONST_BORROWED;
        }
    }
}

/* Records which offers of a region its provider declined; records nothing if out of memory. */
static void record_declined(struct program *program, const program_step *step, const inlay_diag *why,
                            program_declined *out)
{
    uint8_t *offers = arena_array(&program->arena, (size_t)program->parts.offer_count + 1, sizeof *offers);
    const char *text = arena_string(&program->arena, why->text);

    if (offers == NULL || text == NULL)
        return;
    declined_mark(program, (uint32_t)(step - program->steps), why, offers);
    *out = (program_declined){ program, offers, "compile", text };
}

static inlay_status compile_region(struct program *program, program_step *step, uint8_t *fates, struct arena *scratch,
                                   program_declined *out_declined, inlay_diag *diag)
{
    const partition_region *region = step->region;
    compile_call call = { .hooks = { .ctx = &call,
                                     .align_constant = align_for_region,
                                     .release_constant = release_constant,
                                     .take_pack = take_pack,
                                     .keep_pack = keep_pack },
                          .program = program,
                          .provider = step->provider,
                          .coming = program->env->room != NULL
                                        ? program_expected_bytes(program, (uint32_t)(step - program->steps))
                                        : 0,
                          .over = INLAY_DIAG_INIT };
    uint64_t *cookies = arena_array(scratch, (size_t)region->offer_count + 1, sizeof *cookies);
    inlay_placement *placements = borders_negotiate(program, region, &program->arena);
    inlay_compile_request request = { .struct_size = sizeof request };
    inlay_diag own = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_CHECK(step->provider != NULL && step->compiled == NULL);
    if (cookies == NULL || placements == NULL)
        return no_memory(diag, "to compile a region of graph '%s'", program->graph->name);
    step->resident_bytes = 0;
    for (uint32_t i = 0; i < region->offer_count; i++) {
        const partition_offer *offer = &program->parts.offers[region->offers[i]];

        cookies[i] = offer->cookie;
        if (__builtin_add_overflow(step->resident_bytes, offer->resident_bytes, &step->resident_bytes))
            step->resident_bytes = UINT64_MAX / 2;
    }
    request.resident_bytes = &step->resident_bytes;
    call.hooks.timings = program_timings(program, step->provider);
    request.handle = &call.hooks;
    request.graph = &program->snapshot;
    request.nodes = region->nodes;
    request.node_count = region->node_count;
    request.cookies = cookies;
    request.offer_count = region->offer_count;
    request.inputs = region->inputs;
    request.input_count = region->input_count;
    request.outputs = region->outputs;
    request.output_count = region->output_count;
    request.placements = placements;
    request.placement_stride = sizeof *placements;
    request.constants = fates;
    request.max_threads = program->env->max_threads;
    request.profile = program->parts.compiled_for;
    request.profile_stride = sizeof *request.profile;
    request.progress = report_progress;
    request.poll = check_limit_and_progress;
    request.ctx = &call;
    step->placements = placements;
    blob_slot_open(&call.slot, program->env, step->provider, &request);
    status = step->provider->table->compile(step->provider->state, &request, &step->compiled, &own);
    blob_slot_close(&call.slot);
    if (status == INLAY_OK && step->compiled == NULL)
        status = inlay_fail(&own, INLAY_INTERNAL, "provider %s: compile succeeded without a compiled region",
                            step->provider->name);
    if (status != INLAY_OK) {
        const graph_node *node = program->graph->nodes[region->nodes[0]];

        step->compiled = NULL;
        if (call.over.code != INLAY_OK) {
            forward_diag(diag, &call.over);
            return INLAY_LIMIT_EXCEEDED;
        }
        status = inlay_fail(diag, status, "can't compile %s node '%s' of graph '%s': %.300s", node->info.op_type.data,
                            node->info.name.data, program->graph->name, own.text);
        if (status == INLAY_UNSUPPORTED)
            record_declined(program, step, &own, out_declined);
        return status;
    }
    program_count_resident(program->env, step, false);
    forget_constants(program, region, fates);
    return INLAY_OK;
}

/* Compiles the bodies of a host node. */
static inlay_status compile_bodies(struct program *program, program_step *step, program_declined *out_declined,
                                   inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    step->bodies = program->bodies_of[step->region->nodes[0]];
    for (uint32_t i = 0; i < step->node->body_count && status == INLAY_OK; i++)
        status = program_compile(step->bodies[i], out_declined, diag);
    return status;
}

static bool runs_on_host(const partition_provider *provider)
{
    return partition_default_domain(provider) == INLAY_DOMAIN_HOST &&
           (provider->table->flags & INLAY_PROVIDER_ASYNC) == 0;
}

static inlay_status compile_step(struct program *program, uint32_t i, uint8_t *fates, struct arena *scratch,
                                 program_declined *out_declined, inlay_diag *diag)
{
    program_step *step = &program->steps[i];
    const partition_region *region = &program->parts.regions[i];

    INLAY_CHECK(i < program->parts.region_count);
    step->region = region;
    step->node = program->graph->nodes[region->nodes[0]];
    if (region->provider == INLAY_NONE)
        return compile_bodies(program, step, out_declined, diag);
    step->provider = &program->env->providers[region->provider];
    step->foldable = region->node_count == 1 && runs_on_host(step->provider) && !graph_node_is_random(step->node) &&
                     step->node->body_count == 0;
    step->view = region->node_count == 1 && runs_on_host(step->provider) && is_view(step->node);
    return step->compiled != NULL ? INLAY_OK : compile_region(program, step, fates, scratch, out_declined, diag);
}

static bool find_last_uses(struct program *program)
{
    program->uses.last =
        arena_array(&program->arena, (size_t)program->graph->value_count + 1, sizeof *program->uses.last);
    if (program->uses.last == NULL)
        return false;
    memset(program->uses.last, 0xff, program->graph->value_count * sizeof *program->uses.last);
    for (uint32_t i = 0; i < program->step_count; i++)
        for (uint32_t k = 0; k < program->steps[i].region->input_count; k++)
            program->uses.last[program->steps[i].region->inputs[k]] = i;
    for (uint32_t k = 0; k < program->graph->output_count; k++)
        if (program->graph->outputs[k] != INLAY_NONE)
            program->uses.last[program->graph->outputs[k]] = program->step_count;
    return true;
}

/* The domain where the bodies of a node read a value that the node passes on to them. */
static uint32_t read_in_bodies(const program_step *step, uint32_t value)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t k = 0; k < step->node->body_count && program_passes_to_bodies(step, value); k++) {
        const graph_body *body = &step->node->bodies[k];
        const struct program *program = step->bodies[k];

        for (uint32_t i = 0; i < body->capture_count && domain == INLAY_DOMAIN_HOST; i++)
            if (body->capture_outer[i] == value)
                domain = program->uses.reader_domain[body->capture_inner[i]];
        for (uint32_t i = 0; i < step->node->info.input_count && domain == INLAY_DOMAIN_HOST; i++)
            if (i < program->graph->input_count && step->node->info.inputs[i] == value)
                domain = program->uses.reader_domain[program->graph->inputs[i]];
    }
    return domain;
}

static bool find_readers(struct program *program)
{
    program->uses.reader_domain =
        arena_array(&program->arena, (size_t)program->graph->value_count + 1, sizeof *program->uses.reader_domain);
    program->uses.region_domain =
        arena_array(&program->arena, (size_t)program->graph->value_count + 1, sizeof *program->uses.region_domain);
    program->uses.read_on_host =
        arena_array(&program->arena, (size_t)program->graph->value_count + 1, sizeof *program->uses.read_on_host);
    if (program->uses.reader_domain == NULL || program->uses.region_domain == NULL ||
        program->uses.read_on_host == NULL)
        return false;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];

        INLAY_CHECK(step->provider == NULL || step->placements != NULL);
        for (uint32_t k = 0; k < step->region->input_count; k++) {
            const uint32_t value = step->region->inputs[k];
            const uint32_t domain = step->provider != NULL ? step->placements[k].domain : read_in_bodies(step, value);

            if (domain != INLAY_DOMAIN_HOST)
                program->uses.reader_domain[value] = domain;
            if (domain != INLAY_DOMAIN_HOST && step->provider != NULL)
                program->uses.region_domain[value] = domain;
            program->uses.read_on_host[value] |=
                domain == INLAY_DOMAIN_HOST || step->provider == NULL; /* some body may read it in host memory */
        }
    }
    for (uint32_t k = 0; k < program->graph->output_count; k++)
        if (program->graph->outputs[k] != INLAY_NONE)
            program->uses.read_on_host[program->graph->outputs[k]] = true;
    return true;
}

/* Returns whether the session's progress bar counts the step: only when it is compiled for the first time. */
static bool is_new(const struct program *program, uint32_t i)
{
    return program->fallback.base == NULL && program->steps[i].region == NULL && program->steps[i].compiled == NULL;
}

static inlay_status compile_steps(struct program *program, uint8_t *fates, program_declined *out_declined,
                                  inlay_diag *diag)
{
    const program_env *env = program->env;
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };

    for (uint32_t i = 0; i < program->parts.region_count; i++) {
        if (env->progress != NULL && is_new(program, i))
            INLAY_TRY(env->progress(env->progress_ctx, "compiling", 1));
        INLAY_TRY(compile_step(program, i, fates, &scratch, out_declined, diag));
        arena_reset(&scratch);
    }
done:
    arena_deinit(&scratch);
    return status;
}

inlay_status program_compile(struct program *program, program_declined *out_declined, inlay_diag *diag)
{
    inlay_status status;
    uint8_t *fates;

    if (program->compiled)
        return INLAY_OK;
    fates = arena_alloc(&program->arena, (size_t)program->graph->value_count + 1);
    if (program->constants.aligned == NULL)
        program->constants.aligned =
            arena_array(&program->arena, (size_t)program->graph->value_count + 1, sizeof(void *));
    if (program->steps == NULL)
        program->steps = arena_array(&program->arena, (size_t)program->parts.region_count + 1, sizeof *program->steps);
    if (program->steps == NULL || program->constants.aligned == NULL || fates == NULL)
        return program_no_memory(program->graph, diag);
    program->step_count = program->parts.region_count; /* so that program_destroy() releases the compiled regions */
    status = compile_steps(program, fates, out_declined, diag);
    if (status == INLAY_OK && (!find_last_uses(program) || !find_readers(program) || !program_find_states(program)))
        status = program_no_memory(program->graph, diag);
    program->compiled = status == INLAY_OK;
    if (status == INLAY_CANCELLED)
        status = inlay_fail(diag, INLAY_CANCELLED, "cancelled while compiling graph '%s'", program->graph->name);
    return status;
}
