/* Chains: pointwise kernels behind one another run as one loop over tiles that stay in the first cache.
 *
 *     assess      nodes whose kernels have a row and whose results nobody else reads are joined to who reads them; the
 *                 group is one more offer beside those of its nodes
 *     specialize  the dims of the result are the loop; what is read from outside broadcasts into it
 *     execute     tile by tile, each kernel's row in turn; what is between them lives in buffers of a tile
 *
 * Where sizes turn out not to fit, the units of the region run one after the other as those of any region do. */
#include "internal.h"

enum { TILE = 1024, MAX_CHAIN = 512, SHORT_ROW = 32 };

/* ------------------------------------------------------------------ finding */

/* Is the node one of a chain, by itself? Everything it reads and makes is float, and the first row_inputs are all that
 * its row reads. */
static bool is_pointwise(const kit_node *node, const kit_kernel *kernel)
{
    const inlay_node_info *info = node->info;
    const inlay_value_info *output = kit_output(node, 0);

    if (kernel == NULL || kernel->row == NULL || info->input_count < kernel->row_inputs || output == NULL ||
        output->dtype != INLAY_FLOAT || output->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t output_index = 1; output_index < info->output_count; output_index++)
        if (info->outputs[output_index] != INLAY_NONE)
            return false;
    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *input = kit_input(node, i);

        if (i < kernel->row_inputs ? input == NULL || input->dtype != INLAY_FLOAT || input->rank == INLAY_RANK_UNKNOWN
                                   : input != NULL && !kit_is_constant(node, i))
            return false;
    }
    return kernel->row_fits == NULL || kernel->row_fits(node);
}

static bool same_dims(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank != b->rank || a->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        const inlay_dim *dim = &a->dims[d], *y = &b->dims[d];
        if (dim->kind != y->kind || dim->kind == INLAY_DIM_UNKNOWN ||
            (dim->kind == INLAY_DIM_FIXED ? dim->value != y->value : dim->symbol != y->symbol))
            return false;
    }
    return true;
}

/* For each value the node that reads it, when there is one alone and it is no output of the graph; INLAY_NONE. */
static void find_only_readers(const inlay_graph *graph, uint32_t *reader)
{
    const uint32_t NOBODY = INLAY_NONE - 1;

    for (uint32_t v = 0; v < graph->value_count; v++)
        reader[v] = (inlay_graph_value(graph, v)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ? INLAY_NONE : NOBODY;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_node_info *info = inlay_graph_node(graph, n);
        for (uint32_t i = 0; i < info->input_count; i++) {
            uint32_t v = info->inputs[i];
            if (v != INLAY_NONE && v < graph->value_count)
                reader[v] = reader[v] == NOBODY || reader[v] == n ? n : INLAY_NONE;
        }
    }
    for (uint32_t v = 0; v < graph->value_count; v++)
        reader[v] = reader[v] == NOBODY ? INLAY_NONE : reader[v];
}

/* Offers the nodes of each chain. last[n] is the last node of n's chain, INLAY_NONE: it is in none; first and next are
 * room for lists. */
static inlay_status offer_chains(const inlay_graph *graph, const uint32_t *last, uint32_t *first, uint32_t *next,
                                 const inlay_assess_sink *sink)
{
    memset(first, 0xff, graph->node_count * sizeof *first);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        if (last[n] == INLAY_NONE)
            continue;
        next[n] = first[last[n]];
        first[last[n]] = n;
    }
    for (uint32_t root = 0; root < graph->node_count; root++) {
        uint32_t nodes[MAX_CHAIN], count = 0;

        for (uint32_t n = first[root]; n != INLAY_NONE && count < MAX_CHAIN; n = next[n])
            nodes[count++] = n;
        if (count > 1) {
            const inlay_offer offer = {
                .struct_size = sizeof offer, .cookie = KIT_COOKIE_CHAIN, .nodes = nodes, .node_count = count
            };
            inlay_status status = sink->offer(sink->ctx, &offer);
            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

inlay_status kit_offer_chains(const kit_state *state, const inlay_graph *graph, const kit_kernel *const *kernels,
                              const inlay_assess_sink *sink)
{
    uint32_t *reader = malloc(((size_t)graph->value_count + 3 * (size_t)graph->node_count + 1) * sizeof *reader);
    uint32_t *last, *size, *room;
    inlay_status status;

    if (reader == NULL)
        return INLAY_OUT_OF_MEMORY;
    last = reader + graph->value_count;
    size = last + graph->node_count; /* nodes of the chain that ends there */
    room = size + graph->node_count;
    find_only_readers(graph, reader);
    memset(size, 0, graph->node_count * sizeof *size);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const kit_node node = {
            .host = state->host, .graph = graph, .info = inlay_graph_node(graph, n), .provider = state->user
        };
        uint32_t v = node.info->output_count > 0 ? node.info->outputs[0] : INLAY_NONE, next;

        last[n] = INLAY_NONE;
        if (!is_pointwise(&node, kernels[n]))
            continue;
        last[n] = n;
        next = v == INLAY_NONE ? INLAY_NONE : reader[v];
        if (next != INLAY_NONE && next > n && last[next] != INLAY_NONE && size[last[next]] < MAX_CHAIN &&
            same_dims(inlay_graph_value(graph, v), inlay_graph_value(graph, inlay_graph_node(graph, next)->outputs[0])))
            last[n] = last[next];
        size[last[n]]++;
    }
    status = offer_chains(graph, last, size, room, sink);
    free(reader);
    return status;
}

/* ------------------------------------------------------------------ at concrete shapes */

enum { MAX_RANK = 8 };

/* Where a row reads or writes. */
enum { AT_OUTSIDE, AT_TILE, AT_OUTPUT };

/* Something that is read from outside. */
struct outside {
    uint32_t kind;             /* KIT_REF_INPUT or FIXED */
    uint32_t index;            /* of the region's input */
    const float *address;      /* FIXED */
    int64_t strides[MAX_RANK]; /* elements, 0 = broadcast */
};

struct link {
    void (*row)(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);
    const void *state;
    uint32_t from_kind[KIT_ROW_INPUTS], from[KIT_ROW_INPUTS];
    int64_t step[KIT_ROW_INPUTS];
    uint32_t in_count;
    uint32_t to_kind, to;
};

struct kit_chain {
    uint32_t rank;            /* at least 1 */
    int64_t dims[MAX_RANK];   /* dimensions that can be walked as one are one */
    int64_t count;            /* their product */
    struct outside *outsides; /* [outside_count] */
    struct link *links;       /* [link_count] */
    uint32_t outside_count, link_count;
    uint32_t tile_count; /* buffers of a tile */
    int64_t chunks;      /* tiles in the last dimension */
};

/* Is the tensor's shape broadcast into dims? Gives its strides, in elements. */
static bool broadcast_strides(const kit_tensor *tensor, const int64_t *dims, uint32_t rank, int64_t *strides)
{
    int64_t step = 1;

    if (tensor->rank > rank)
        return false;
    for (uint32_t d = rank; d-- > 0;) {
        int64_t size = d + tensor->rank >= rank ? tensor->dims[d + tensor->rank - rank] : 1;

        if (size != dims[d] && size != 1)
            return false;
        strides[d] = size == 1 ? 0 : step;
        step *= size;
    }
    return true;
}

/* Joins neighbouring dimensions where every stride allows it, and drops those of size 1. */
static void collapse(struct kit_chain *chain)
{
    uint32_t kept = 0;

    for (uint32_t d = 0; d < chain->rank; d++) {
        bool joins = kept > 0;

        if (chain->dims[d] == 1)
            continue;
        for (uint32_t k = 0; joins && k < chain->outside_count; k++)
            joins = chain->outsides[k].strides[kept - 1] == chain->outsides[k].strides[d] * chain->dims[d];
        if (joins)
            chain->dims[kept - 1] *= chain->dims[d];
        else
            chain->dims[kept++] = chain->dims[d];
        for (uint32_t k = 0; k < chain->outside_count; k++)
            chain->outsides[k].strides[kept - 1] = chain->outsides[k].strides[d];
    }
    if (kept == 0) {
        chain->dims[kept++] = 1;
        for (uint32_t k = 0; k < chain->outside_count; k++)
            chain->outsides[k].strides[0] = 0;
    }
    chain->rank = kept;
}

/* What the building of a chain keeps in mind. */
struct builder {
    const inlay_compiled *compiled;
    const inlay_specialize_request *request;
    struct kit_chain *chain;
    uint32_t *tile_of;  /* [unit_count] the buffer that holds the unit's result, INLAY_NONE */
    uint32_t *last_use; /* [unit_count] the last unit that reads it */
    bool *busy;         /* [unit_count] buffers in use */
};

/* The unit that makes the value; INLAY_NONE: none of the region. */
static uint32_t maker_of(const inlay_compiled *compiled, uint32_t before, uint32_t value)
{
    for (uint32_t unit = before; unit-- > 0;)
        if (compiled->units[unit].refs[compiled->units[unit].in_count].value == value)
            return unit;
    return INLAY_NONE;
}

static bool add_outside(struct builder *builder, const kit_ref *ref, uint32_t *out_index)
{
    struct kit_chain *chain = builder->chain;
    kit_tensor tensor;
    struct outside outside = { .kind = ref->kind, .index = ref->index, .address = ref->address };

    if ((ref->kind != KIT_REF_INPUT && ref->kind != KIT_REF_FIXED) ||
        kit_describe(builder->request->values, builder->request->value_stride, builder->request->value_count,
                     ref->value, &tensor, NULL) != INLAY_OK ||
        tensor.count < 0 || !broadcast_strides(&tensor, chain->dims, chain->rank, outside.strides))
        return false;
    *out_index = chain->outside_count;
    chain->outsides[chain->outside_count++] = outside;
    return true;
}

static bool same_shape(const kit_tensor *tensor, const struct kit_chain *chain)
{
    return tensor->rank == chain->rank &&
           (tensor->rank == 0 || memcmp(tensor->dims, chain->dims, tensor->rank * sizeof *tensor->dims) == 0);
}

/* A free buffer for the result of unit u: that of an operand which nobody reads later, or another. */
static uint32_t take_tile(struct builder *builder, uint32_t u)
{
    uint32_t tile = 0;

    for (uint32_t m = 0; m < u; m++) /* what u reads for the last time is free: rows may write over what they read */
        if (builder->last_use[m] == u && builder->tile_of[m] != INLAY_NONE)
            builder->busy[builder->tile_of[m]] = false;
    while (builder->busy[tile])
        tile++;
    builder->busy[tile] = true;
    if (tile >= builder->chain->tile_count)
        builder->chain->tile_count = tile + 1;
    return tile;
}

static bool add_link(struct builder *builder, uint32_t unit_index)
{
    const kit_unit *unit = &builder->compiled->units[unit_index];
    const kit_ref *result = &unit->refs[unit->in_count];
    struct link *link = &builder->chain->links[unit_index];
    kit_tensor tensor;

    *link = (struct link){ .row = unit->kernel->row, .state = unit->state, .in_count = unit->kernel->row_inputs };
    for (uint32_t i = 0; i < link->in_count; i++) {
        uint32_t m = maker_of(builder->compiled, unit_index, unit->refs[i].value);

        if (m == INLAY_NONE) {
            link->from_kind[i] = AT_OUTSIDE;
            if (!add_outside(builder, &unit->refs[i], &link->from[i]))
                return false;
            continue;
        }
        link->from_kind[i] = builder->chain->links[m].to_kind;
        link->from[i] = builder->chain->links[m].to;
        link->step[i] = 1;
    }
    if (kit_describe(builder->request->values, builder->request->value_stride, builder->request->value_count,
                     result->value, &tensor, NULL) != INLAY_OK ||
        tensor.count < 0 || !same_shape(&tensor, builder->chain))
        return false;
    link->to_kind = result->kind == KIT_REF_OUTPUT ? AT_OUTPUT : AT_TILE;
    link->to = result->kind == KIT_REF_OUTPUT ? result->index : take_tile(builder, unit_index);
    builder->tile_of[unit_index] = link->to_kind == AT_TILE ? link->to : INLAY_NONE;
    return true;
}

static bool build_links(struct builder *builder)
{
    const inlay_compiled *compiled = builder->compiled;

    for (uint32_t unit_index = 0; unit_index < compiled->unit_count; unit_index++) {
        const kit_unit *unit = &compiled->units[unit_index];

        builder->last_use[unit_index] = unit_index;
        for (uint32_t i = 0; i < unit->kernel->row_inputs; i++) {
            uint32_t m = maker_of(compiled, unit_index, unit->refs[i].value);
            if (m != INLAY_NONE)
                builder->last_use[m] = unit_index;
        }
    }
    for (uint32_t u = 0; u < compiled->unit_count; u++)
        if (!add_link(builder, u))
            return false;
    return true;
}

/* The strides of the innermost dimension go into the links, now that dimensions are joined. */
static void set_steps(struct kit_chain *chain)
{
    for (uint32_t l = 0; l < chain->link_count; l++)
        for (uint32_t i = 0; i < chain->links[l].in_count; i++)
            if (chain->links[l].from_kind[i] == AT_OUTSIDE)
                chain->links[l].step[i] = chain->outsides[chain->links[l].from[i]].strides[chain->rank - 1];
    chain->chunks = (chain->dims[chain->rank - 1] + TILE - 1) / TILE;
}

/* An input that the last result may be written over: it has every element of it, and so each tile is read before it is
 * written. */
static void plan_output(const inlay_compiled *compiled, const struct kit_chain *chain,
                        inlay_specialize_request *request)
{
    const kit_unit *root = &compiled->units[compiled->unit_count - 1];
    uint32_t index = root->refs[root->in_count].index, alias = INLAY_NONE;

    for (uint32_t k = 0; k < chain->outside_count && alias == INLAY_NONE; k++) {
        int64_t step = 1;
        bool whole = chain->outsides[k].kind == KIT_REF_INPUT;

        for (uint32_t d = chain->rank; whole && d-- > 0; step *= chain->dims[d])
            whole = chain->dims[d] == 1 || chain->outsides[k].strides[d] == step;
        if (whole)
            alias = chain->outsides[k].index;
    }
    for (uint32_t o = 0; o < request->output_count; o++) {
        inlay_output_plan *plan =
            (inlay_output_plan *)(void *)((char *)request->outputs + (size_t)request->output_stride * o);
        plan->kind = INLAY_OUTPUT_KNOWN;
        plan->alias = o == index ? alias : INLAY_NONE;
    }
}

inlay_status kit_chain_build(const inlay_compiled *compiled, inlay_specialize_request *request,
                             struct kit_chain **out_chain)
{
    uint32_t units = compiled->unit_count, reads = units * KIT_ROW_INPUTS;
    const kit_unit *root = &compiled->units[units - 1];
    struct kit_chain *chain, *had = *out_chain;
    const size_t head = sizeof *chain + reads * sizeof(struct outside) + units * sizeof(struct link);
    const size_t bytes = head + ((size_t)units * 3 + 1) * sizeof(uint32_t); /* the same for all shapes */
    struct builder builder = { .compiled = compiled, .request = request };
    uint64_t threads = request->max_threads > 0 ? request->max_threads : 1;
    kit_tensor output;
    bool fits;

    *out_chain = NULL;
    if (root->refs[root->in_count].kind != KIT_REF_OUTPUT ||
        kit_describe(request->values, request->value_stride, request->value_count, root->refs[root->in_count].value,
                     &output, NULL) != INLAY_OK ||
        output.count < 0 || output.rank > MAX_RANK) {
        free(had);
        return INLAY_OK;
    }
    chain = had != NULL ? memset(had, 0, bytes) : calloc(1, bytes);
    if (chain == NULL)
        return INLAY_OUT_OF_MEMORY;
    builder.chain = chain;
    builder.tile_of = (void *)((char *)chain + head);
    builder.last_use = builder.tile_of + units;
    builder.busy = (bool *)(void *)(builder.last_use + units);
    chain->outsides = (struct outside *)(void *)(chain + 1);
    chain->links = (struct link *)(void *)(chain->outsides + reads);
    chain->link_count = units;
    chain->rank = output.rank;
    chain->count = output.count;
    for (uint32_t d = 0; d < output.rank; d++)
        chain->dims[d] = output.dims[d];
    fits = build_links(&builder);
    if (!fits) {
        free(chain);
        return INLAY_OK;
    }
    if (chain->count > 0)
        collapse(chain);
    /* A loop for each of many short rows costs more than results that go through memory. */
    if (chain->rank > 1 && chain->dims[chain->rank - 1] < SHORT_ROW && chain->count > TILE) {
        free(chain);
        return INLAY_OK;
    }
    set_steps(chain);
    plan_output(compiled, chain, request);
    request->workspace_bytes = threads * chain->tile_count * TILE * sizeof(float);
    *out_chain = chain;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the run */

typedef struct chain_run {
    const struct kit_chain *chain;
    const inlay_exec_args *args;
    float *tiles;
} chain_run;

static float *output_at(const chain_run *run, uint32_t index)
{
    return inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, run->args->outputs, run->args->arg_stride, index)->buffer);
}

static const float *outside_at(const chain_run *run, const struct outside *outside)
{
    return outside->kind == KIT_REF_FIXED
               ? outside->address
               : inlay_buffer_host(
                     &INLAY_AT(inlay_tensor_arg, run->args->inputs, run->args->arg_stride, outside->index)->buffer);
}

/* One tile: n elements from column `at` of the row that starts at element `first`, whose place in the outer dimensions
 * is `where`. */
static void run_tile(const chain_run *run, const int64_t *where, int64_t first, int64_t at, int64_t n, float *tiles)
{
    const struct kit_chain *chain = run->chain;
    uint32_t inner = chain->rank - 1;

    for (uint32_t l = 0; l < chain->link_count; l++) {
        const struct link *link = &chain->links[l];
        const float *in[KIT_ROW_INPUTS];
        float *out = link->to_kind == AT_TILE ? tiles + (size_t)link->to * TILE : output_at(run, link->to) + first + at;

        for (uint32_t i = 0; i < link->in_count; i++) {
            const struct outside *outside;
            const float *p;

            if (link->from_kind[i] == AT_TILE) {
                in[i] = tiles + (size_t)link->from[i] * TILE;
                continue;
            }
            if (link->from_kind[i] == AT_OUTPUT) {
                in[i] = output_at(run, link->from[i]) + first + at;
                continue;
            }
            outside = &chain->outsides[link->from[i]];
            p = outside_at(run, outside) + at * outside->strides[inner];
            for (uint32_t d = 0; d < inner; d++)
                p += where[d] * outside->strides[d];
            in[i] = p;
        }
        link->row(link->state, out, in, link->step, n);
    }
}

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const chain_run *run = user;
    const struct kit_chain *chain = run->chain;
    int64_t length = chain->dims[chain->rank - 1], where[MAX_RANK];
    float *tiles = run->tiles + (size_t)worker * chain->tile_count * TILE;

    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / chain->chunks, at = i % chain->chunks * TILE, rest = row;

        for (uint32_t d = chain->rank - 1; d-- > 0;) {
            where[d] = rest % chain->dims[d];
            rest /= chain->dims[d];
        }
        run_tile(run, where, row * length, at, length - at < TILE ? length - at : TILE, tiles);
    }
    return INLAY_OK;
}

inlay_status kit_chain_run(const kit_state *state, const struct kit_chain *chain, uint32_t max_threads,
                           const inlay_exec_args *args)
{
    chain_run run = { .chain = chain, .args = args, .tiles = inlay_buffer_host(&args->workspace) };
    int64_t length = chain->dims[chain->rank - 1],
            tiles = chain->count == 0 ? 0 : chain->count / length * chain->chunks;
    int64_t work = (length < TILE ? length : TILE) * (int64_t)chain->link_count, grain;

    if (tiles == 0)
        return INLAY_OK;
    grain = KIT_CHAIN_GRAIN / (work > 0 ? work : 1) + 1;
    if (tiles <= grain || max_threads <= 1)
        return run_range(&run, 0, tiles, 0);
    return state->host->parallel_for(state->host->ctx, args->run, tiles, grain, run_range, &run);
}
