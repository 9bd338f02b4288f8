/* graph/originals.c - which weights of a translation leave the memory, and their return. */
#include "graph/originals.h"
#include "graph/blobs.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The weights that contain these bytes; NULL: none. */
static graph_external *weights_of(const graph_model *model, const inlay_value_info *info)
{
    graph_external *external = info->data != NULL ? model->externals : NULL;

    while (external != NULL &&
           (external->location[0] != GRAPH_MADE || (uintptr_t)info->data < (uintptr_t)external->bytes ||
            (uintptr_t)info->data >= (uintptr_t)external->bytes + external->count))
        external = external->next;
    return external;
}

void graph_give_back(struct graph *graph)
{
    graph_model *model = graph->model;

    if (model->made_externals == 0 || model->path == NULL)
        return;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->body_count > 0) /* bodies have further values with the same elements */
            return;
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const graph_value *constant = &graph->values[value];
        graph_external *external = weights_of(model, &constant->info);

        if (external == NULL)
            continue;
        external->copied |= constant->copied;
        external->read_in_place |= constant->read_in_place || (constant->info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0;
    }
    for (graph_external *external = model->externals; external != NULL; external = external->next)
        if (external->copied && !external->read_in_place && graph_blob_discard(model, external->bytes))
            external->discarded = model->discarded = true;
}

static void set_discarded(graph_model *model, bool discarded)
{
    for (graph_external *external = model->externals; external != NULL; external = external->next)
        if (external->discarded && discarded)
            (void)graph_blob_discard(model, external->bytes);
        else if (external->discarded)
            graph_blob_reclaim(model, external->bytes);
}

static inlay_status restore(graph_model *model, inlay_diag *diag)
{
    inlay_status status = graph_files_check(model, diag);

    if (status != INLAY_OK)
        return status;
    set_discarded(model, false);
    status = model->refill(model, diag);
    if (status == INLAY_OK)
        status = graph_files_check(model, diag);
    if (status != INLAY_OK) {
        set_discarded(model, true);
        return status;
    }
    for (graph_external *external = model->externals; external != NULL; external = external->next)
        external->discarded = false;
    __atomic_store_n(&model->discarded, false, __ATOMIC_RELEASE);
    return INLAY_OK;
}

inlay_status graph_restore(const graph_model *model, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (; model != NULL && status == INLAY_OK; model = model->base) {
        if (!__atomic_load_n(&model->discarded, __ATOMIC_ACQUIRE))
            continue;
        (void)pthread_mutex_lock(&lock);
        if (model->discarded)
            status = restore((graph_model *)(uintptr_t)model, diag);
        (void)pthread_mutex_unlock(&lock);
    }
    return status;
}
