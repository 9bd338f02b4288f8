/* The look at a model: every part at every graph. */
#include "modelkit/doctor_parts.h"

static inlay_status examine_graph(struct doctor *d, struct graph *g, inlay_diag *diag)
{
    static const char what[] = "looking at nodes and weights";
    struct readers r;
    inlay_status status = INLAY_OK;

    if (d->progress != NULL && d->progress(d->user, 0.1, what) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    if (!readers_find(g, &r))
        return no_memory(diag, "to look at %u nodes", g->node_count);
    doctor_look_nodes(d, g, &r);
    doctor_look_weights(d, g, &r);
    doctor_look_twice(d, g, &r);
    doctor_look_quant(d, g, &r);
    for (uint32_t i = 0; i < g->node_count && status == INLAY_OK; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count && status == INLAY_OK; b++)
            status = examine_graph(d, g->nodes[i]->bodies[b].graph, diag);
    return status;
}

inlay_status doctor_examine(struct doctor *d, inlay_diag *diag)
{
    inlay_status status = examine_graph(d, d->model->main, diag);

    if (status == INLAY_OK)
        doctor_look_axes(d, d->model->main);
    if (status == INLAY_OK && d->failed)
        status = no_memory(diag, "for what was found");
    return status;
}
