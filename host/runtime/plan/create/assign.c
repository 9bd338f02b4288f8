/* plan/create/assign.c - creates the programs of a graph and its bodies, and partitions their graphs. */
#include "plan/create/create.h"
#include "base/memory.h"
#include "inlay/extensions.h"
#include "partition/cost/cost.h"
#include <stdlib.h>
#include <string.h>

/* Adds the bodies of a node to the snapshot. */
static inlay_status add_bodies_to_snapshot(struct program *program, uint32_t node_index, inlay_diag *diag)
{
    inlay_node_info *info = (inlay_node_info *)(uintptr_t)&program->snapshot.nodes[node_index];
    const graph_node *node = program->graph->nodes[node_index];
    inlay_body *list = arena_array(&program->arena, node->body_count, sizeof *list);

    if (list == NULL)
        return program_no_memory(program->graph, diag);
    for (uint32_t i = 0; i < node->body_count; i++) {
        const graph_body *body = &node->bodies[i];

        list[i] = (inlay_body){ .attr = { body->attr, strlen(body->attr) },
                                .graph = &program->bodies_of[node_index][i]->snapshot,
                                .capture_outer = body->capture_outer,
                                .capture_inner = body->capture_inner,
                                .capture_count = body->capture_count };
    }
    info->bodies = list;
    info->body_count = node->body_count;
    info->body_stride = sizeof *list;
    return INLAY_OK;
}

/* Creates the programs of a graph and of its bodies, before partitioning. */
static inlay_status create_programs(struct graph *graph, const program_env *env, const char *path,
                                    struct program **out_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct program *program = calloc(1, sizeof *program);
    uint32_t bodies = 0;

    *out_program = program;
    if (program == NULL)
        return program_no_memory(graph, diag);
    program->graph = graph;
    program->model = graph->model;
    program->env = env;
    (void)pthread_mutex_init(&program->constants.lock, NULL);
    (void)pthread_mutex_init(&program->kept.lock, NULL);
    program->path = arena_string(&program->arena, path);
    INLAY_TRY(graph_snapshot(graph, &program->arena, &program->snapshot, diag));
    program->bodies_of = arena_array(&program->arena, (size_t)graph->node_count + 1, sizeof *program->bodies_of);
    if (program->bodies_of == NULL || program->path == NULL)
        return program_no_memory(graph, diag);
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++)
        bodies += graph->nodes[node_index]->body_count;
    program->bodies = arena_array(&program->arena, (size_t)bodies + 1, sizeof *program->bodies);
    if (program->bodies == NULL)
        return program_no_memory(graph, diag);
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++) {
        const graph_node *node = graph->nodes[node_index];

        if (node->body_count == 0)
            continue;
        program->bodies_of[node_index] =
            arena_array(&program->arena, node->body_count, sizeof *program->bodies_of[node_index]);
        if (program->bodies_of[node_index] == NULL)
            return no_memory(diag, "for the bodies of node '%s'", node->info.name.data);
        for (uint32_t i = 0; i < node->body_count; i++) {
            const char *below = arena_format(&program->arena, "%s%s%s.%s", path, path[0] != '\0' ? "/" : "",
                                             node->info.name.data, node->bodies[i].attr);
            if (below == NULL)
                return program_no_memory(graph, diag);
            status = create_programs(node->bodies[i].graph, env, below, &program->bodies_of[node_index][i], diag);
            program->bodies[program->body_count++] = program->bodies_of[node_index][i];
            if (status != INLAY_OK)
                goto done;
        }
        INLAY_TRY(add_bodies_to_snapshot(program, node_index, diag));
    }
done:
    return status;
}

inlay_status program_assign(struct graph *graph, const program_env *env, bool again, struct program **out_program,
                            inlay_diag *diag)
{
    inlay_status status = create_programs(graph, env, "", out_program, diag);
    partition_job *jobs = NULL;
    uint32_t count;

    if (status != INLAY_OK) {
        program_destroy(*out_program);
        *out_program = NULL;
        return status;
    }
    count = program_count(*out_program);
    jobs = malloc(count * sizeof *jobs);
    if (jobs == NULL)
        return program_no_memory(graph, diag);
    (void)program_jobs(*out_program, jobs);
    jobs[0].request.again = again;
    status = partition_all(jobs, count, diag);
    free(jobs);
    return status;
}

/* Partitions a body whose node a provider was to run whole, and declined. */
static inlay_status assign_idle(struct program *program, inlay_diag *diag)
{
    const cost_sizes *known = program->env->sizes;
    partition_rules rules = program->env->rules != NULL ? *program->env->rules : (partition_rules){ 0 };
    /* not the session's arena, which only one thread may use: this may be called during a run */
    cost_sizes sizes = { 0 };
    uint32_t count = program_count(program);
    partition_job *jobs = malloc(count * sizeof *jobs);
    inlay_status status;

    if (jobs == NULL)
        return program_no_memory(program->graph, diag);
    if (known != NULL) {
        sizes.assumed = known->assumed;
        sizes.assumed_count = known->assumed_count;
    }
    rules.saved_plan = NULL; /* the saved plan assigns the node to that provider */
    rules.require_count = 0; /* such rules apply to all graphs together */
    (void)program_jobs(program, jobs);
    for (uint32_t j = 0; j < count; j++) {
        jobs[j].request.rules = &rules;
        jobs[j].request.sizes = &sizes;
    }
    jobs[0].request.again = true;
    status = partition_all(jobs, count, diag);
    cost_sizes_deinit(&sizes);
    free(jobs);
    return status;
}

inlay_status program_assign_bodies(struct program *program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t region = 0; region < program->parts.region_count; region++) {
        const uint32_t node = program->parts.regions[region].nodes[0];

        if (program->parts.regions[region].provider != INLAY_NONE)
            continue;
        for (uint32_t i = 0; i < program->graph->nodes[node]->body_count && status == INLAY_OK; i++) {
            if (program->bodies_of[node][i]->parts.idle)
                status = assign_idle(program->bodies_of[node][i], diag);
            if (status == INLAY_OK)
                status = program_assign_bodies(program->bodies_of[node][i], diag);
        }
    }
    return status;
}
