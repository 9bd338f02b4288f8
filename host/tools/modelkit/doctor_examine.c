/* Runs every check on every graph of a model. */
#include "modelkit/doctor_parts.h"

static inlay_status examine_graph(struct doctor *doctor, struct graph *graph, inlay_diag *diag)
{
    static const char what[] = "examining nodes and weights";
    struct readers readers;
    inlay_status status = INLAY_OK;

    if (doctor->progress != NULL && doctor->progress(doctor->user, 0.1, what) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    if (!readers_find(graph, &readers))
        return no_memory(diag, "to examine %u nodes", graph->node_count);
    doctor_check_nodes(doctor, graph, &readers);
    doctor_check_weights(doctor, graph, &readers);
    doctor_check_duplicates(doctor, graph, &readers);
    doctor_check_quant(doctor, graph, &readers);
    for (uint32_t i = 0; i < graph->node_count && status == INLAY_OK; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count && status == INLAY_OK; b++)
            status = examine_graph(doctor, graph->nodes[i]->bodies[b].graph, diag);
    return status;
}

inlay_status doctor_examine(struct doctor *doctor, inlay_diag *diag)
{
    inlay_status status = examine_graph(doctor, doctor->model->main, diag);

    if (status == INLAY_OK)
        doctor_check_axes(doctor, doctor->model->main);
    if (status == INLAY_OK)
        doctor_check_imports(doctor);
    if (status == INLAY_OK && doctor->failed)
        status = no_memory(diag, "for the findings");
    return status;
}
