#include "plan/program/compile_region.h"
#include "base/among.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/borders.h"
#include "plan/program/declined.h"
#include "threads/scene.h"
#include "threads/threads.h"
#include <signal.h>
#include <stdlib.h>

inlay_status region_build_begin(region_build *build, struct program *program, program_step *step, struct arena *scratch,
                                inlay_diag *diag)
{
    const partition_region *region = step->region;
    uint64_t *cookies = arena_array(scratch, (size_t)region->offer_count + 1, sizeof *cookies);
    inlay_placement *placements = borders_negotiate(program, region, &program->arena);

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
    *build = (region_build){ .program = program, .step = step, .why = INLAY_DIAG_INIT };
    build->request = (inlay_compile_request){ .struct_size = sizeof build->request,
                                              .graph = &program->snapshot,
                                              .nodes = region->nodes,
                                              .cookies = cookies,
                                              .inputs = region->inputs,
                                              .outputs = region->outputs,
                                              .node_count = region->node_count,
                                              .offer_count = region->offer_count,
                                              .input_count = region->input_count,
                                              .output_count = region->output_count,
                                              .placements = placements,
                                              .placement_stride = sizeof *placements,
                                              .profile = program->parts.compiled_for,
                                              .profile_stride = sizeof *build->request.profile,
                                              .max_threads = program->env->max_threads,
                                              .resident_bytes = &step->resident_bytes };
    step->placements = placements;
    step->has_key = blob_key(program->env, step->provider, &build->request, &step->key);
    build->timings = program_timings(program, step->provider);
    if (program->env->memory.room != NULL)
        build->coming = program_expected_bytes(program, (uint32_t)(step - program->steps));
    return INLAY_OK;
}

/* Does the node read only a few elements of its input i? */
static bool reads_few(const inlay_node_info *node, uint32_t i)
{
    return i == 0 && is_among(node->op_type.data, "Gather GatherElements GatherND GatherBlockQuantized");
}

/* Adds a constant that the compiled region reads in the file, or its aligned copy in the file of packed weights. */
static bool stream_constant(const struct program *program, program_step *step, const inlay_node_info *node, uint32_t i)
{
    const uint32_t value = node->inputs[i];
    const inlay_value_info *info = &program->graph->values[value].info;
    const void *data = program->constants.aligned[value] != NULL ? program->constants.aligned[value] : info->data;

    if (program->env->stream == NULL || data == NULL ||
        (!graph_blob_is_mapped(program->model, data, (size_t)info->data_bytes) &&
         !packs_is_mapped(program->packs, data)))
        return true;
    return weight_stream_add(program->env->stream, &step->weights, data, info->data_bytes,
                             reads_few(node, i) ? STREAM_FEW : STREAM_ALL);
}

/* Releases the file pages of the region's constants that the provider has copied, and resets fates. Adds the others to
 * the stream; false: out of memory. */
static bool settle_constants(const struct program *program, program_step *step, bool compiled, uint8_t *fates)
{
    const partition_region *region = step->region;
    bool good = true;

    for (uint32_t k = 0; k < region->node_count; k++) {
        const inlay_node_info *node = &program->graph->nodes[region->nodes[k]]->info;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t value = node->inputs[i];
            if (value == INLAY_NONE)
                continue;
            if (fates[value] == INLAY_CONST_BORROWED) {
                good = good && (!compiled || stream_constant(program, step, node, i));
                continue;
            }
            if (compiled)
                program_release_pages(program, &program->graph->values[value].info);
            fates[value] = INLAY_CONST_BORROWED;
        }
    }
    return good;
}

void region_build_run(region_build *build, uint8_t *fates, build_team *team, uint32_t position)
{
    program_step *step = build->step;
    build_call call;

    build_call_begin(&call, build->program, step->provider, NULL, step->has_key ? &step->key : NULL);
    call.hooks.timings = build->timings;
    call.coming = build->coming;
    call.team = team;
    call.position = position;
    call.weights = build->program->env->stream != NULL ? &step->weights : NULL;
    BUILD_CALL_SET(&call, &build->request);
    build->request.constants = fates;
    build->status =
        step->provider->table->compile(step->provider->state, &build->request, &step->compiled, &build->why);
    step->blob = build_call_end(&call);
    if (build->status == INLAY_OK && step->compiled == NULL)
        build->status = inlay_fail(&build->why, INLAY_INTERNAL,
                                   "provider %s: compile succeeded without a compiled region", step->provider->name);
    if (!settle_constants(build->program, step, build->status == INLAY_OK, fates)) {
        step->provider->table->release_compiled(step->provider->state, step->compiled);
        build->status = no_memory(&build->why, "to compile a region of graph '%s'", build->program->graph->name);
    }
    if (build->status == INLAY_OK) {
        program_count_resident(build->program->env, step, false);
        return;
    }
    step->compiled = NULL;
    if (step->weights != NULL)
        weight_stream_remove(build->program->env->stream, step->weights);
    step->weights = NULL;
    blob_unmap(&step->blob);
    build->over_limit = call.over.code != INLAY_OK;
    if (build->over_limit)
        build->why = call.over;
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

inlay_status region_build_end(region_build *build, program_declined *out_declined, inlay_diag *diag)
{
    const struct program *program = build->program;
    const graph_node *node = build->step->node;

    if (build->status == INLAY_OK)
        return INLAY_OK;
    if (build->over_limit) {
        forward_diag(diag, &build->why);
        return INLAY_LIMIT_EXCEEDED;
    }
    if (build->status == INLAY_UNSUPPORTED)
        record_declined(build->program, build->step, &build->why, out_declined);
    return inlay_fail(diag, build->status, "can't compile %s node '%s' of graph '%s': %.300s", node->info.op_type.data,
                      node->info.name.data, program->graph->name, build->why.text);
}

enum { MAX_BUILD_THREADS = 64 };

/* The work of the threads of region_builds_run(). */
typedef struct build_work {
    region_build *builds; /* [count] */
    uint32_t count;
    uint32_t next;  /* atomic: the next build; builds start in order */
    uint32_t share; /* threads that loops of one build may use */
    build_team team;
} build_work;

/* After a build has failed, later ones are not needed: the first failure in the order of regions counts, and the builds
 * before it have already started. */
static void note_failure(build_work *work, uint32_t position)
{
    uint32_t end = __atomic_load_n(&work->team.end, __ATOMIC_RELAXED);

    while (position < end &&
           !__atomic_compare_exchange_n(&work->team.end, &end, position, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void *run_builds(void *user)
{
    build_work *work = user;
    uint8_t *fates = calloc((size_t)work->builds[0].program->graph->value_count + 1, 1);
    const uint32_t held = threads_set_limit(work->share);

    crash_here.model = work->builds[0].program->model->source.identity;
    for (;;) {
        const uint32_t position = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        region_build *build;

        if (position >= work->count)
            break;
        build = &work->builds[position];
        if (fates == NULL)
            build->status = inlay_fail(&build->why, INLAY_OUT_OF_MEMORY, "out of memory");
        else if (build_team_stopped(&work->team, position))
            build->status = INLAY_CANCELLED;
        else
            region_build_run(build, fates, &work->team, position);
        if (build->status != INLAY_OK)
            note_failure(work, position);
        else
            (void)build_team_report(&work->team, build->program->env, "compiling",
                                    build->program->fallback.base == NULL);
        build->step->counted = true;
    }
    (void)threads_set_limit(held);
    free(fates);
    return NULL;
}

void region_builds_run(region_build *builds, uint32_t count)
{
    const program_env *env = builds[0].program->env;
    const uint32_t most = env->build_threads < MAX_BUILD_THREADS ? env->build_threads : MAX_BUILD_THREADS;
    const uint32_t wanted = most < count ? most : count;
    pthread_t *threads = calloc((size_t)wanted + 1, sizeof *threads);
    build_work work = { .builds = builds, .count = count, .team = { .end = count } };
    uint32_t started = 0;
    sigset_t all, before;

    (void)pthread_mutex_init(&work.team.lock, NULL);
    work.share = wanted > 0 && env->max_threads > wanted ? env->max_threads / wanted : 1;
    (void)sigfillset(&all); /* signals are handled by the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (threads != NULL && started + 1 < wanted && pthread_create(&threads[started], NULL, run_builds, &work) == 0)
        started++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)run_builds(&work);
    while (started > 0)
        (void)pthread_join(threads[--started], NULL);
    (void)pthread_mutex_destroy(&work.team.lock);
    free(threads);
}
