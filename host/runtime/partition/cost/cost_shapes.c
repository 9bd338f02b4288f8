/* cost_shapes.c - the sizes at which a graph is priced. */
#include "base/checked.h"
#include "partition/cost/cost.h"
#include "partition/cost/cost_bounds.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BATCH = 1,
    CHANNELS = 3,
    IMAGE = 224,
    LENGTH = 64,   /* of what is neither batch nor image: a sequence, as a rule */
    ESTIMATE = 16, /* of what depends on data */
    SIZE_MAX_ASSUMED = 1 << 30
};

struct pricing {
    const struct graph *g;
    cost_sizes *sizes;
    inlay_value_info *infos; /* [value_count] at the sizes */
    struct arena *a;
    struct arena scratch;
};

void cost_sizes_deinit(cost_sizes *sizes)
{
    free(sizes->symbols);
    sizes->symbols = NULL;
    sizes->symbol_count = 0;
}

/* ------------------------------------------------------------------ symbols */

/* Room for every symbol of the model; new ones start unmet. */
static bool make_room(cost_sizes *sizes, uint32_t count)
{
    int64_t *more;

    if (count <= sizes->symbol_count)
        return true;
    more = realloc(sizes->symbols, count * sizeof *more);
    if (more == NULL)
        return false;
    for (uint32_t i = sizes->symbol_count; i < count; i++)
        more[i] = -1;
    sizes->symbols = more;
    sizes->symbol_count = count;
    return true;
}

static const inlay_symbol_info *symbol_info(const struct graph *g, uint32_t symbol)
{
    return symbol > 0 && symbol < g->model->symbol_count ? &g->model->symbols[symbol] : NULL;
}

static int64_t within_bounds(const inlay_symbol_info *s, int64_t size)
{
    if (s != NULL && size > s->max)
        size = s->max;
    if (s != NULL && size < s->min)
        size = s->min;
    return size < SIZE_MAX_ASSUMED ? size : SIZE_MAX_ASSUMED;
}

static void learn(cost_sizes *sizes, const inlay_dim *dim, int64_t size)
{
    if (dim->kind == INLAY_DIM_SYMBOLIC && dim->symbol < sizes->symbol_count && sizes->symbols[dim->symbol] < 0)
        sizes->symbols[dim->symbol] = size;
}

static void learn_assumed(struct pricing *p)
{
    for (uint32_t i = 0; i < p->sizes->assumed_count; i++) {
        const cost_assumption *x = &p->sizes->assumed[i];

        for (uint32_t k = 1; k < p->g->model->symbol_count && x->size >= 0; k++)
            if (p->g->model->symbols[k].name.bytes == x->name_bytes &&
                memcmp(p->g->model->symbols[k].name.data, x->name, x->name_bytes) == 0)
                p->sizes->symbols[k] = x->size < SIZE_MAX_ASSUMED ? x->size : SIZE_MAX_ASSUMED;
    }
}

/* What people call a dimension whose usual size is 1. */
static bool names_batch(const char *name)
{
    return strcasestr(name, "batch") != NULL || strcmp(name, "N") == 0 || strcmp(name, "B") == 0;
}

/* A size for dimension d of a graph input that nobody has said anything about. */
static int64_t guess(const inlay_value_info *v, uint32_t d, const inlay_symbol_info *symbol)
{
    bool image = v->dtype != INLAY_INT64 && v->dtype != INLAY_INT32 &&
                 (v->rank == 4 || (v->rank == 3 && v->dims[0].kind == INLAY_DIM_FIXED && v->dims[0].value == CHANNELS));

    if (d == 0 || (symbol != NULL && names_batch(symbol->name.data)))
        return within_bounds(symbol, BATCH);
    if (image)
        return within_bounds(symbol, d + 3 == v->rank ? CHANNELS : IMAGE);
    return within_bounds(symbol, LENGTH);
}

/* ------------------------------------------------------------------ values */

static inlay_dim fixed(int64_t size)
{
    return (inlay_dim){ .value = size, .kind = INLAY_DIM_FIXED };
}

static bool all_fixed(const inlay_value_info *v)
{
    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        if (v->dims[d].kind != INLAY_DIM_FIXED)
            return false;
    return v->rank != INLAY_RANK_UNKNOWN;
}

/* A graph input with every dimension fixed: said, met, or guessed. */
static bool settle_input(struct pricing *p, uint32_t v, const cost_input *said)
{
    inlay_value_info *info = &p->infos[v];
    bool is_said =
        said != NULL && said->rank <= INLAY_MAX_RANK && (said->rank == info->rank || info->rank == INLAY_RANK_UNKNOWN);
    inlay_dim *dims;

    if (is_said)
        info->rank = said->rank;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    dims = arena_array(p->a, (size_t)info->rank + 1, sizeof *dims);
    for (uint32_t d = 0; dims != NULL && d < info->rank; d++) {
        const inlay_dim *old = info->dims != NULL ? &info->dims[d] : &(inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
        const inlay_symbol_info *symbol = old->kind == INLAY_DIM_SYMBOLIC ? symbol_info(p->g, old->symbol) : NULL;

        if (old->kind == INLAY_DIM_FIXED)
            dims[d] = *old;
        else if (is_said && said->dims[d] >= 0)
            dims[d] = fixed(said->dims[d]);
        else if (symbol != NULL && p->sizes->symbols[old->symbol] >= 0)
            dims[d] = fixed(p->sizes->symbols[old->symbol]);
        else
            dims[d] = fixed(p->sizes->ones         ? within_bounds(symbol, 1)
                            : p->g->parent == NULL ? guess(info, d, symbol)
                                                   : within_bounds(symbol, ESTIMATE));
        learn(p->sizes, old, dims[d].value);
    }
    info->dims = dims;
    return dims != NULL;
}

/* What inference left open takes the size that a run found, or that its symbol has elsewhere, or an estimate. */
static bool settle_output(struct pricing *p, const graph_node *n, uint32_t output, const inlay_value_info *const *in)
{
    const uint32_t v = n->info.outputs[output];
    const inlay_value_info *was = &p->g->values[v].info; /* as the model knows it */
    const cost_input *seen = p->sizes->seen != NULL ? &p->sizes->seen[v] : NULL;
    inlay_value_info *info = &p->infos[v];
    inlay_dim *dims;

    if (info->rank == INLAY_RANK_UNKNOWN && was->rank != INLAY_RANK_UNKNOWN) {
        info->rank = was->rank;
        info->dims = was->dims;
    }
    if (info->rank == INLAY_RANK_UNKNOWN && seen != NULL)
        info->rank = seen->rank;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (seen != NULL && seen->rank != info->rank)
        seen = NULL;
    dims = arena_array(p->a, (size_t)info->rank + 1, sizeof *dims);
    for (uint32_t d = 0; dims != NULL && d < info->rank; d++) {
        const inlay_dim unknown = { .value = -1, .kind = INLAY_DIM_UNKNOWN };
        const inlay_dim *found = info->dims != NULL ? &info->dims[d] : &unknown;
        const inlay_dim *old = was->rank == info->rank ? &was->dims[d] : found;
        const inlay_symbol_info *symbol = old->kind == INLAY_DIM_SYMBOLIC ? symbol_info(p->g, old->symbol) : NULL;

        if (found->kind == INLAY_DIM_FIXED)
            dims[d] = *found;
        else if (old->kind == INLAY_DIM_FIXED)
            dims[d] = *old;
        else if (seen != NULL && seen->dims[d] >= 0)
            dims[d] = fixed(within_bounds(symbol, seen->dims[d]));
        else if (symbol != NULL && p->sizes->symbols[old->symbol] >= 0)
            dims[d] = fixed(p->sizes->symbols[old->symbol]);
        else
            dims[d] = fixed(within_bounds(symbol, cost_estimate(&n->info, in, output, d, ESTIMATE)));
        learn(p->sizes, old, dims[d].value);
    }
    info->dims = dims;
    return dims != NULL;
}

/* When inference knows every element of an integer tensor, it is data. Elements are kept in either case. */
static bool settle_elements(struct pricing *p, inlay_value_info *info)
{
    bool wide = info->dtype == INLAY_INT64;
    uint64_t count = info->element_count;
    char *data;

    if (info->elements == NULL)
        return true;
    info->elements = arena_copy(p->a, info->elements, (size_t)count * sizeof *info->elements);
    if (info->elements == NULL)
        return false;
    if (!wide && info->dtype != INLAY_INT32)
        return true;
    for (uint64_t i = 0; i < count; i++)
        if (info->elements[i].kind != INLAY_DIM_FIXED)
            return true;
    data = arena_array(p->a, (size_t)count + 1, 8);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        int64_t e = info->elements[i].value;
        int32_t narrow = (int32_t)e;
        memcpy(data + i * (wide ? 8 : 4), wide ? (void *)&e : (void *)&narrow, wide ? 8 : 4);
    }
    info->data = data;
    info->data_bytes = count * (wide ? 8 : 4);
    return data != NULL;
}

/* A node at the sizes. Inference that fails (sizes that don't go together, since they were guessed) says nothing. */
static bool settle_node(struct pricing *p, const graph_node *n)
{
    const inlay_value_info **in = arena_array(&p->scratch, (size_t)n->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(&p->scratch, (size_t)n->info.output_count + 1, sizeof *out);
    inlay_status status;

    if (in == NULL || out == NULL)
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        in[i] = n->info.inputs[i] == INLAY_NONE ? NULL : &p->infos[n->info.inputs[i]];
    for (uint32_t i = 0; i < n->info.output_count; i++)
        out[i] = n->info.outputs[i] == INLAY_NONE ? NULL : &p->infos[n->info.outputs[i]];
    status = graph_infer_node(p->g->model, n, in, out, &p->scratch, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return false;
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        if (out[i] == NULL)
            continue;
        if (status != INLAY_OK) {
            p->sizes->conflict = true;
            out[i]->rank = INLAY_RANK_UNKNOWN;
            out[i]->elements = NULL;
        }
        if (!settle_output(p, n, i, in) || !settle_elements(p, out[i]))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ the whole */

static bool settle_graph(struct pricing *p)
{
    const struct graph *g = p->g;

    for (uint32_t i = 0; i < g->input_count; i++)
        if (!settle_input(p, g->inputs[i],
                          g->parent == NULL && i < p->sizes->input_count ? &p->sizes->inputs[i] : NULL))
            return false;
    for (uint32_t i = 0; i < g->captured_count; i++)
        if ((g->values[g->captured[i]].info.flags & INLAY_VALUE_CONSTANT) == 0 &&
            !settle_input(p, g->captured[i], NULL))
            return false;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (!settle_node(p, g->nodes[n]))
            return false;
        arena_reset(&p->scratch);
    }
    return true;
}

/* Is there nothing to assume and nothing to infer? */
static bool is_settled(const struct graph *g)
{
    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->values[v].info.kind == INLAY_VALUE_TENSOR && !all_fixed(&g->values[v].info))
            return false;
    return true;
}

static bool state_of(const inlay_value_info *info, struct arena *a, inlay_value_state *out)
{
    int64_t *dims;

    *out = (inlay_value_state){
        .rank = info->rank, .dtype = info->dtype, .data = info->data, .data_bytes = info->data_bytes
    };
    if (info->rank != INLAY_RANK_UNKNOWN) {
        out->dims = dims = arena_array(a, (size_t)info->rank + 1, sizeof *dims);
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].value;
        if (dims == NULL)
            return false;
    }
    if ((uintptr_t)info->data % 16 != 0) {
        bool shown = graph_decides_shapes(info);

        out->data = shown ? arena_copy(a, info->data, (size_t)info->data_bytes) : NULL;
        return !shown || out->data != NULL;
    }
    return true;
}

inlay_value_state *cost_shapes(const struct graph *g, const inlay_graph *snapshot, cost_sizes *sizes, struct arena *a)
{
    inlay_value_state *states = arena_array(a, (size_t)snapshot->value_count + 1, sizeof *states);
    cost_sizes defaults = { 0 };
    struct pricing p = { .g = g, .sizes = sizes != NULL ? sizes : &defaults, .a = a };
    bool good;

    p.infos = arena_array(a, (size_t)g->value_count + 1, sizeof *p.infos);
    good = states != NULL && p.infos != NULL && make_room(p.sizes, g->model->symbol_count);
    for (uint32_t v = 0; good && v < g->value_count; v++)
        p.infos[v] = g->values[v].info;
    if (good && !is_settled(g)) {
        learn_assumed(&p);
        good = settle_graph(&p);
    }
    for (uint32_t v = 0; good && v < g->value_count; v++)
        good = state_of(&p.infos[v], a, &states[v]);
    arena_deinit(&p.scratch);
    cost_sizes_deinit(&defaults);
    return good ? states : NULL;
}
