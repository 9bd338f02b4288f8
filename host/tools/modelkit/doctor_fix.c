/* What doctor_fix() does for each kind of finding. Readers are led elsewhere first; what nobody reads then goes. */
#include "modelkit/doctor_parts.h"
#include "passes/pass.h"
#include "modelkit/edit.h"
#include <string.h>

/* Readers of v read `instead`. */
static inlay_status lead(struct graph *g, uint32_t v, uint32_t instead)
{
    uint32_t *replacement = arena_array(&g->model->arena, (size_t)g->value_count + 1, sizeof *replacement);

    if (replacement == NULL)
        return INLAY_OUT_OF_MEMORY;
    memset(replacement, 0xff, g->value_count * sizeof *replacement);
    replacement[v] = instead;
    pass_replace_uses(g, replacement);
    return INLAY_OK;
}

/* What each of the casts reads does for their readers: its own type is right. */
static inlay_status fix_needless(doctor_finding *f)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < f->node_count && status == INLAY_OK; i++)
        status = lead(f->g, f->nodes[i]->info.outputs[0], f->nodes[i]->info.inputs[0]);
    return status;
}

/* The Cast reads what the chain began with; where that has the right type already, its readers do. */
static inlay_status fix_cast(doctor_finding *f)
{
    graph_node *n = f->nodes[0];
    const inlay_value_info *from = &f->g->values[f->instead].info, *to = &f->g->values[f->v].info;

    if (from->dtype == to->dtype && (to->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0)
        return lead(f->g, f->v, f->instead);
    edit_input(n, 0, f->instead);
    return INLAY_OK;
}

static inlay_status fix_constants(doctor_finding *f)
{
    uint32_t kept = 0, next = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < f->g->node_count; i++) {
        graph_node *n = f->g->nodes[i];

        if (next == f->node_count || f->nodes[next] != n) { /* both are in the order of the graph */
            f->g->nodes[kept++] = n;
            continue;
        }
        next++;
        if (status == INLAY_OK) {
            const inlay_tensor_view *t = graph_attr(n, "value")->tensor;

            status = graph_set_constant(f->g, n->info.outputs[0], t->dtype, t->rank, t->dims, t->data, t->bytes);
        }
    }
    f->g->node_count = kept;
    return status;
}

static inlay_status fix_integers(doctor_finding *f)
{
    const inlay_value_info *info = &f->g->values[f->v].info;
    const uint64_t count = info->data_bytes / 8;
    int32_t *narrow = graph_blob_alloc(f->g->model, count * sizeof *narrow);
    int64_t dims[INLAY_MAX_RANK], one;

    if (narrow == NULL || info->rank > INLAY_MAX_RANK)
        return INLAY_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&one, (const char *)info->data + i * 8, sizeof one);
        narrow[i] = (int32_t)one;
    }
    for (uint32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].value;
    f->g->values[f->v].declared = false;
    return graph_set_constant(f->g, f->v, INLAY_INT32, info->rank, dims, narrow, count * sizeof *narrow);
}

/* Every declared axis of that symbol, or the axes of an output, get their sizes. */
static inlay_status fix_axis(doctor_finding *f)
{
    struct graph *g = f->g;

    for (uint32_t v = 0; v < g->value_count; v++) {
        graph_value *value = &g->values[v];
        inlay_dim *dims;

        if (!value->declared || value->declared_rank == INLAY_RANK_UNKNOWN || value->declared_rank == 0 ||
            value->declared_rank != value->info.rank || (f->instead == 0 && v != f->v))
            continue;
        dims = arena_copy(&g->model->arena, value->declared_dims, value->declared_rank * sizeof *dims);
        if (dims == NULL)
            return INLAY_OUT_OF_MEMORY;
        for (uint32_t k = 0; k < value->declared_rank; k++) {
            const inlay_dim *known = &value->info.dims[k];

            if (f->instead == 0 && dims[k].kind != INLAY_DIM_FIXED && known->kind == INLAY_DIM_FIXED)
                dims[k] = *known;
            if (f->instead != 0 && ((known->kind == INLAY_DIM_SYMBOLIC && known->symbol == f->instead) ||
                                    (dims[k].kind == INLAY_DIM_SYMBOLIC && dims[k].symbol == f->instead)))
                dims[k] = (inlay_dim){ .value = f->size, .kind = INLAY_DIM_FIXED };
        }
        value->declared_dims = dims;
    }
    return INLAY_OK;
}

static inlay_status fix_one(doctor_finding *f)
{
    switch (f->kind) {
    case DOCTOR_CAST_CHAIN:
        return fix_cast(f);
    case DOCTOR_CAST_NEEDLESS:
        return fix_needless(f);
    case DOCTOR_WEIGHTS_TWICE:
        return lead(f->g, f->v, f->instead);
    case DOCTOR_WEIGHTS_UNUSED:
        return INLAY_OK; /* dropped below */
    case DOCTOR_CONSTANT_HUGE:
        return fix_constants(f);
    case DOCTOR_WEIGHTS_INPUTS:
        return graph_freeze_defaults(f->g);
    case DOCTOR_INT64:
        return fix_integers(f);
    case DOCTOR_AXIS_CONSTANT:
        return fix_axis(f);
    default:
        return INLAY_UNSUPPORTED;
    }
}

/* Casts that nobody reads any longer, from the last to the first. */
static bool drop_casts(struct graph *g)
{
    bool *drop = arena_array(&g->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    bool more = drop != NULL;

    while (more) {
        struct readers r;

        more = false;
        if (!readers_find(g, &r))
            return false;
        memset(drop, 0, g->node_count * sizeof *drop);
        for (uint32_t i = 0; i < g->node_count; i++)
            more |= drop[i] = doctor_is_op(g->nodes[i], "Cast") && r.count[g->nodes[i]->info.outputs[0]] == 0;
        pass_drop_nodes(g, drop);
    }
    for (uint32_t i = 0; i < g->node_count && drop != NULL; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            if (!drop_casts(g->nodes[i]->bodies[b].graph))
                return false;
    return drop != NULL;
}

inlay_status doctor_fix(struct doctor *d, inlay_diag *diag)
{
    bool casts = false;

    for (doctor_finding *f = d->first; f != NULL; f = f->next) {
        if (!f->can_fix)
            continue;
        if (fix_one(f) != INLAY_OK)
            return no_memory(diag, "to put the model right");
        f->fixed = true;
        casts = casts || f->kind == DOCTOR_CAST_CHAIN || f->kind == DOCTOR_CAST_NEEDLESS;
    }
    if ((casts && !drop_casts(d->model->main)) || !edit_drop_unused(d->model->main))
        return no_memory(diag, "to put the model right");
    return graph_finish(d->model->main, diag);
}
