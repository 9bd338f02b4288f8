/* plan/create/assign.c - the programs of a graph and its bodies, assigned as the graphs are. */
#include "base/memory.h"
#include "plan/program/compile.h"
#include "plan/create/settle.h"
#include "inlay/extensions.h"
#include <stdlib.h>
#include <string.h>

/* The bodies of node n, whose programs are there, become part of the snapshot. */
static inlay_status show_bodies(program *p, uint32_t n, inlay_diag *diag)
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
static inlay_status start(graph *g, const program_env *env, const char *path, program **out_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    program *p = calloc(1, sizeof *p);
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

inlay_status program_assign(graph *g, const program_env *env, bool again, program **out_program, inlay_diag *diag)
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
