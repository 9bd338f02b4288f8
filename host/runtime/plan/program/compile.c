/* plan/program/compile.c - compiles the regions of a program. */
#include "plan/program/compile.h"
#include "base/among.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "partition/cost/cost.h"
#include "plan/program/compile_region.h"
#include "plan/program/take_over.h"
#include <string.h>

/* Operators whose output is their input with another shape; the planner executes them without a copy. */
static bool is_view(const graph_node *node)
{
    return strcmp(node->info.domain.data, "ai.onnx") == 0 && node->info.output_count == 1 &&
           is_among(node->info.op_type.data, "Reshape Flatten Squeeze Unsqueeze Identity");
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

static void describe_step(struct program *program, uint32_t i)
{
    program_step *step = &program->steps[i];
    const partition_region *region = &program->parts.regions[i];

    INLAY_CHECK(i < program->parts.region_count);
    step->region = region;
    step->node = program->graph->nodes[region->nodes[0]];
    if (region->provider == INLAY_NONE)
        return;
    step->provider = &program->env->providers[region->provider];
    step->foldable = region->node_count == 1 && runs_on_host(step->provider) && step->node->body_count == 0 &&
                     !graph_node_is_random(program->graph, step->node);
    step->view = region->node_count == 1 && runs_on_host(step->provider) && is_view(step->node);
}

static inlay_status compile_step(struct program *program, program_step *step, uint8_t *fates, struct arena *scratch,
                                 program_declined *out_declined, inlay_diag *diag)
{
    inlay_status status;
    region_build build;

    if (step->provider == NULL)
        return compile_bodies(program, step, out_declined, diag);
    if (step->compiled != NULL)
        return INLAY_OK;
    status = region_build_begin(&build, program, step, scratch, diag);
    if (status != INLAY_OK)
        return status;
    region_build_run(&build, fates, NULL, 0);
    return region_build_end(&build, out_declined, diag);
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

/* The regions of a program that are compiled at the same time. */
typedef struct build_group {
    region_build *builds; /* [count] in the order of regions */
    uint32_t count;
    uint32_t ended;       /* builds whose status was taken */
    struct arena scratch; /* of the builds */
} build_group;

static bool compiles_together(const program_step *step)
{
    return step->provider != NULL && step->compiled == NULL &&
           (step->provider->table->flags & INLAY_PROVIDER_CONCURRENT_COMPILE) != 0;
}

/* Compiles the regions whose providers permit it at the same time, if there are several. */
static inlay_status compile_together(struct program *program, build_group *group, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    for (uint32_t i = 0; i < program->step_count; i++)
        count += compiles_together(&program->steps[i]);
    if (count < 2 || program->env->build_threads < 2)
        return INLAY_OK;
    group->builds = arena_array(&group->scratch, count, sizeof *group->builds);
    if (group->builds == NULL)
        return program_no_memory(program->graph, diag);
    for (uint32_t i = 0; i < program->step_count && status == INLAY_OK; i++)
        if (compiles_together(&program->steps[i]))
            status =
                region_build_begin(&group->builds[group->count++], program, &program->steps[i], &group->scratch, diag);
    if (status == INLAY_OK)
        region_builds_run(group->builds, group->count);
    return status;
}

/* Returns whether the session's progress bar counts the step: only when it is compiled for the first time. */
static bool counts_in_progress(const struct program *program, const program_step *step)
{
    return program->env->progress != NULL && program->fallback.base == NULL && !step->counted && step->compiled == NULL;
}

/* Compiles the steps in their order, so that the first failure in this order is the result. */
static inlay_status compile_steps(struct program *program, uint8_t *fates, program_declined *out_declined,
                                  inlay_diag *diag)
{
    const program_env *env = program->env;
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };
    build_group group = { 0 };

    for (uint32_t i = 0; i < program->step_count; i++)
        describe_step(program, i);
    program_take_over(program);
    INLAY_TRY(compile_together(program, &group, diag));
    for (uint32_t i = 0; i < program->step_count; i++) {
        program_step *step = &program->steps[i];

        if (group.ended < group.count && group.builds[group.ended].step == step) {
            INLAY_TRY(region_build_end(&group.builds[group.ended++], out_declined, diag));
            continue;
        }
        if (counts_in_progress(program, step))
            INLAY_TRY(env->progress(env->progress_ctx, "compiling", 1));
        step->counted = true;
        INLAY_TRY(compile_step(program, step, fates, &scratch, out_declined, diag));
        arena_reset(&scratch);
    }
done:
    arena_deinit(&scratch);
    arena_deinit(&group.scratch);
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
