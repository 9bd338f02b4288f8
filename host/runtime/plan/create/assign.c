/* plan/create/assign.c - the programs of a graph and its bodies, assigned as the graphs are. */
#include "plan/create/create.h"
#include "base/memory.h"
#include "inlay/extensions.h"
#include "partition/cost/cost.h"
#include <stdlib.h>
#include <string.h>

/* The bodies of node n, whose programs are there, become part of the snapshot. */
static inlay_status show_bodies(struct program *p, uint32_t n, inlay_diag *diag)
{
    inlay_node_info *info = (inlay_node_info *)(uintptr_t)&p->snapshot.nodes[n];
    const graph_node *node = p->graph->nodes[n];
    inlay_body *list = arena_array(&p->a, node->body_count, sizeof *list);

    if (list == NULL)
        return program_no_memory(p->graph, diag);
    for (uint32_t i = 0; i < node->body_count; i++) {
        const graph_body *b = &node->bodies[i];

        list[i] = (inlay_body){ .attr = { b->attr, strlen(b->attr) },
                                .graph = &p->bodies_of[n][i]->snapshot,
                                .capture_outer = b->capture_outer,
                                .capture_inner = b->capture_inner,
                                .capture_count = b->capture_count };
    }
    info->bodies = list;
    info->body_count = node->body_count;
    info->body_stride = sizeof *list;
    return INLAY_OK;
}

/* The programs of a graph and, behind it, of its bodies, before anything is assigned. */
static inlay_status start(struct graph *g, const program_env *env, const char *path, struct program **out_program,
                          inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct program *p = calloc(1, sizeof *p);
    uint32_t bodies = 0;

    *out_program = p;
    if (p == NULL)
        return program_no_memory(g, diag);
    p->graph = g;
    p->model = g->model;
    p->env = env;
    (void)pthread_mutex_init(&p->constants.lock, NULL);
    (void)pthread_mutex_init(&p->kept.lock, NULL);
    p->path = arena_string(&p->a, path);
    INLAY_TRY(graph_snapshot(g, &p->a, &p->snapshot, diag));
    p->bodies_of = arena_array(&p->a, (size_t)g->node_count + 1, sizeof *p->bodies_of);
    if (p->bodies_of == NULL || p->path == NULL)
        return program_no_memory(g, diag);
    for (uint32_t n = 0; n < g->node_count; n++)
        bodies += g->nodes[n]->body_count;
    p->bodies = arena_array(&p->a, (size_t)bodies + 1, sizeof *p->bodies);
    if (p->bodies == NULL)
        return program_no_memory(g, diag);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const graph_node *node = g->nodes[n];

        if (node->body_count == 0)
            continue;
        p->bodies_of[n] = arena_array(&p->a, node->body_count, sizeof *p->bodies_of[n]);
        if (p->bodies_of[n] == NULL)
            return no_memory(diag, "for the bodies of node '%s'", node->info.name.data);
        for (uint32_t i = 0; i < node->body_count; i++) {
            const char *below = arena_format(&p->a, "%s%s%s.%s", path, path[0] != '\0' ? "/" : "", node->info.name.data,
                                             node->bodies[i].attr);
            if (below == NULL)
                return program_no_memory(g, diag);
            status = start(node->bodies[i].graph, env, below, &p->bodies_of[n][i], diag);
            p->bodies[p->body_count++] = p->bodies_of[n][i];
            if (status != INLAY_OK)
                goto done;
        }
        INLAY_TRY(show_bodies(p, n, diag));
    }
done:
    return status;
}

inlay_status program_assign(struct graph *g, const program_env *env, bool again, struct program **out_program,
                            inlay_diag *diag)
{
    inlay_status status = start(g, env, "", out_program, diag);
    part_job *jobs = NULL;
    uint32_t count;

    if (status != INLAY_OK) {
        program_destroy(*out_program);
        *out_program = NULL;
        return status;
    }
    count = program_count(*out_program);
    jobs = malloc(count * sizeof *jobs);
    if (jobs == NULL)
        return program_no_memory(g, diag);
    (void)program_jobs(*out_program, jobs);
    jobs[0].request.again = again;
    status = partition_all(jobs, count, diag);
    free(jobs);
    return status;
}

/* A provider was to run the node that p is a body of, and declined: p is assigned now. */
static inlay_status assign_idle(struct program *p, inlay_diag *diag)
{
    const cost_sizes *known = p->env->sizes;
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };
    cost_sizes sizes = { 0 }; /* of our own: the session's are for one thread, and this may be a run */
    uint32_t count = program_count(p);
    part_job *jobs = malloc(count * sizeof *jobs);
    inlay_status status;

    if (jobs == NULL)
        return program_no_memory(p->graph, diag);
    if (known != NULL) {
        sizes.assumed = known->assumed;
        sizes.assumed_count = known->assumed_count;
    }
    rules.saved_plan = NULL; /* it gives the node to that provider */
    rules.require_count = 0; /* all graphs together keep it */
    (void)program_jobs(p, jobs);
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

inlay_status program_assign_bodies(struct program *p, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t r = 0; r < p->parts.region_count; r++) {
        const uint32_t n = p->parts.regions[r].nodes[0];

        if (p->parts.regions[r].provider != INLAY_NONE)
            continue;
        for (uint32_t i = 0; i < p->graph->nodes[n]->body_count && status == INLAY_OK; i++) {
            if (p->bodies_of[n][i]->parts.idle)
                status = assign_idle(p->bodies_of[n][i], diag);
            if (status == INLAY_OK)
                status = program_assign_bodies(p->bodies_of[n][i], diag);
        }
    }
    return status;
}
