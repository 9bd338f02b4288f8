/* Chains: consecutive pointwise kernels are fused into one loop over tiles that fit into the L1 cache.
 *
 *     assess      a node whose kernel has a row function and whose result has one consumer is fused with the consumer;
 *                 the chain is offered in addition to the offers of its nodes
 *     specialize  the loop has the dims of the result; inputs of the chain are broadcast to them
 *     execute     calls the row function of each kernel for a tile, then for the next tile; intermediate results are
 *                 stored in tile buffers
 *
 * If the shapes of a run do not allow this, the units of the region run sequentially, as in any other region. */
#include "internal.h"

enum { TILE = 1024, MAX_CHAIN = 512, SHORT_ROW = 32 };

/* Can the node be part of a chain? Its inputs and its only output must be float tensors. The row function reads the
 * first row_inputs inputs; further inputs must be constants. */
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
        const inlay_dim *dim = &a->dims[d], *other = &b->dims[d];
        if (dim->kind != other->kind || dim->kind == INLAY_DIM_UNKNOWN ||
            (dim->kind == INLAY_DIM_FIXED ? dim->value != other->value : dim->symbol != other->symbol))
            return false;
    }
    return true;
}

/* Stores for each value its only consumer. INLAY_NONE: several consumers, no consumer, or an output of the graph. */
static void find_only_consumers(const inlay_graph *graph, uint32_t *consumer)
{
    const uint32_t UNREAD = INLAY_NONE - 1;

    for (uint32_t value = 0; value < graph->value_count; value++)
        consumer[value] =
            (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ? INLAY_NONE : UNREAD;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        const inlay_node_info *info = inlay_graph_node(graph, node);
        for (uint32_t i = 0; i < info->input_count; i++) {
            uint32_t value = info->inputs[i];
            if (value != INLAY_NONE && value < graph->value_count)
                consumer[value] = consumer[value] == UNREAD || consumer[value] == node ? node : INLAY_NONE;
        }
    }
    for (uint32_t value = 0; value < graph->value_count; value++)
        consumer[value] = consumer[value] == UNREAD ? INLAY_NONE : consumer[value];
}

/* Offers the nodes of each chain. last[node]: the last node of the node's chain; INLAY_NONE: not in a chain. first and
 * next: scratch memory of node_count elements each. */
static inlay_status offer_chains(const inlay_graph *graph, const uint32_t *last, uint32_t *first, uint32_t *next,
                                 const inlay_assess_sink *sink)
{
    memset(first, 0xff, graph->node_count * sizeof *first);
    for (uint32_t node = graph->node_count; node-- > 0;) {
        if (last[node] == INLAY_NONE)
            continue;
        next[node] = first[last[node]];
        first[last[node]] = node;
    }
    for (uint32_t root = 0; root < graph->node_count; root++) {
        uint32_t nodes[MAX_CHAIN], count = 0;

        for (uint32_t node = first[root]; node != INLAY_NONE && count < MAX_CHAIN; node = next[node])
            nodes[count++] = node;
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
    uint32_t *consumer = malloc(((size_t)graph->value_count + 3 * (size_t)graph->node_count + 1) * sizeof *consumer);
    uint32_t *last, *size, *scratch;
    inlay_status status;

    if (consumer == NULL)
        return INLAY_OUT_OF_MEMORY;
    last = consumer + graph->value_count;
    size = last + graph->node_count; /* size[node]: number of nodes of the chain that ends at the node */
    scratch = size + graph->node_count;
    find_only_consumers(graph, consumer);
    memset(size, 0, graph->node_count * sizeof *size);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const kit_node node = {
            .host = state->host, .graph = graph, .info = inlay_graph_node(graph, n), .provider = state->user
        };
        uint32_t result = node.info->output_count > 0 ? node.info->outputs[0] : INLAY_NONE, next;

        last[n] = INLAY_NONE;
        if (!is_pointwise(&node, kernels[n]))
            continue;
        last[n] = n;
        next = result == INLAY_NONE ? INLAY_NONE : consumer[result];
        INLAY_CHECK(next == INLAY_NONE || next < graph->node_count);
        if (next != INLAY_NONE && next > n && last[next] != INLAY_NONE && size[last[next]] < MAX_CHAIN &&
            same_dims(inlay_graph_value(graph, result),
                      inlay_graph_value(graph, inlay_graph_node(graph, next)->outputs[0])))
            last[n] = last[next];
        size[last[n]]++;
    }
    status = offer_chains(graph, last, size, scratch, sink);
    free(consumer);
    return status;
}

enum { MAX_RANK = 8 };

/* Location of an operand of a row function. */
enum { AT_OUTSIDE, AT_TILE, AT_OUTPUT };

/* An operand that the region does not compute. */
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
    int64_t dims[MAX_RANK];   /* after merging neighbours, see collapse() */
    int64_t count;            /* their product */
    struct outside *outsides; /* [outside_count] */
    struct link *links;       /* [link_count] */
    uint32_t outside_count, link_count;
    uint32_t tile_count; /* number of tile buffers */
    int64_t chunks;      /* number of tiles in the last dimension */
};

/* Can the tensor's shape be broadcast to dims? Stores its strides, in elements. */
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

/* Merges neighbouring dimensions if the strides of every operand allow it, and drops dimensions of size 1. */
static void collapse(struct kit_chain *chain)
{
    uint32_t kept = 0;

    for (uint32_t d = 0; d < chain->rank; d++) {
        bool mergeable = kept > 0;

        if (chain->dims[d] == 1)
            continue;
        for (uint32_t k = 0; mergeable && k < chain->outside_count; k++)
            mergeable = chain->outsides[k].strides[kept - 1] == chain->outsides[k].strides[d] * chain->dims[d];
        if (mergeable)
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

/* State of kit_chain_build. */
struct builder {
    const inlay_compiled *compiled;
    const inlay_specialize_request *request;
    struct kit_chain *chain;
    uint32_t *tile_of;  /* [unit_count] the tile buffer of the unit's result, or INLAY_NONE */
    uint32_t *last_use; /* [unit_count] the last unit that reads the unit's result */
    bool *busy;         /* [unit_count] tile buffers in use */
};

/* Returns the unit before `before` that computes the value; INLAY_NONE: no unit of the region. */
static uint32_t find_producer(const inlay_compiled *compiled, uint32_t before, uint32_t value)
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
    INLAY_CHECK(chain->outside_count < builder->compiled->unit_count * KIT_ROW_INPUTS);
    *out_index = chain->outside_count;
    chain->outsides[chain->outside_count++] = outside;
    return true;
}

static bool same_shape(const kit_tensor *tensor, const struct kit_chain *chain)
{
    return tensor->rank == chain->rank &&
           (tensor->rank == 0 || memcmp(tensor->dims, chain->dims, tensor->rank * sizeof *tensor->dims) == 0);
}

/* Reserves a tile buffer for the result of a unit. Row functions may work in place, so the buffers whose last reader is
 * this unit are released first. */
static uint32_t reserve_tile(struct builder *builder, uint32_t unit)
{
    uint32_t tile = 0;

    for (uint32_t earlier = 0; earlier < unit; earlier++)
        if (builder->last_use[earlier] == unit && builder->tile_of[earlier] != INLAY_NONE)
            builder->busy[builder->tile_of[earlier]] = false;
    while (builder->busy[tile])
        tile++;
    INLAY_CHECK(tile < builder->compiled->unit_count);
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
        uint32_t producer = find_producer(builder->compiled, unit_index, unit->refs[i].value);

        if (producer == INLAY_NONE) {
            link->from_kind[i] = AT_OUTSIDE;
            if (!add_outside(builder, &unit->refs[i], &link->from[i]))
                return false;
            continue;
        }
        link->from_kind[i] = builder->chain->links[producer].to_kind;
        link->from[i] = builder->chain->links[producer].to;
        link->step[i] = 1;
    }
    if (kit_describe(builder->request->values, builder->request->value_stride, builder->request->value_count,
                     result->value, &tensor, NULL) != INLAY_OK ||
        tensor.count < 0 || !same_shape(&tensor, builder->chain))
        return false;
    link->to_kind = result->kind == KIT_REF_OUTPUT ? AT_OUTPUT : AT_TILE;
    link->to = result->kind == KIT_REF_OUTPUT ? result->index : reserve_tile(builder, unit_index);
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
            uint32_t producer = find_producer(compiled, unit_index, unit->refs[i].value);
            if (producer != INLAY_NONE)
                builder->last_use[producer] = unit_index;
        }
    }
    for (uint32_t unit_index = 0; unit_index < compiled->unit_count; unit_index++)
        if (!add_link(builder, unit_index))
            return false;
    return true;
}

/* Stores the strides of the innermost dimension in the links. Must be called after collapse(), which changes them. */
static void set_steps(struct kit_chain *chain)
{
    for (uint32_t link_index = 0; link_index < chain->link_count; link_index++)
        for (uint32_t i = 0; i < chain->links[link_index].in_count; i++)
            if (chain->links[link_index].from_kind[i] == AT_OUTSIDE)
                chain->links[link_index].step[i] =
                    chain->outsides[chain->links[link_index].from[i]].strides[chain->rank - 1];
    INLAY_CHECK(chain->rank > 0);
    chain->chunks = (chain->dims[chain->rank - 1] + TILE - 1) / TILE;
}

/* Plans the outputs. The result may alias an input that has the same elements in the same order, since each tile is
 * read before it is written. */
static void plan_output(const inlay_compiled *compiled, const struct kit_chain *chain,
                        inlay_specialize_request *request)
{
    const kit_unit *root = &compiled->units[compiled->unit_count - 1];
    uint32_t index = root->refs[root->in_count].index, alias = INLAY_NONE;

    for (uint32_t k = 0; k < chain->outside_count && alias == INLAY_NONE; k++) {
        int64_t step = 1;
        bool contiguous = chain->outsides[k].kind == KIT_REF_INPUT;

        for (uint32_t d = chain->rank; contiguous && d-- > 0; step *= chain->dims[d])
            contiguous = chain->dims[d] == 1 || chain->outsides[k].strides[d] == step;
        if (contiguous)
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
    struct kit_chain *chain, *recycled = *out_chain;
    const size_t head_bytes = sizeof *chain + reads * sizeof(struct outside) + units * sizeof(struct link);
    const size_t bytes = head_bytes + ((size_t)units * 3 + 1) * sizeof(uint32_t); /* the same for all shapes */
    struct builder builder = { .compiled = compiled, .request = request };
    uint64_t threads = request->max_threads > 0 ? request->max_threads : 1;
    kit_tensor output;
    bool fits;

    INLAY_CHECK(units > 0);
    *out_chain = NULL;
    if (root->refs[root->in_count].kind != KIT_REF_OUTPUT ||
        kit_describe(request->values, request->value_stride, request->value_count, root->refs[root->in_count].value,
                     &output, NULL) != INLAY_OK ||
        output.count < 0 || output.rank > MAX_RANK) {
        free(recycled);
        return INLAY_OK;
    }
    chain = recycled != NULL ? memset(recycled, 0, bytes) : calloc(1, bytes);
    if (chain == NULL)
        return INLAY_OUT_OF_MEMORY;
    builder.chain = chain;
    builder.tile_of = (void *)((char *)chain + head_bytes);
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
    /* For many short rows, calls of row functions cost more than intermediate results in memory. */
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

/* Computes one tile: `count` elements from column `at` of the row that starts at element `first`. `where` has the
 * indices of the row in the outer dimensions. */
static void run_tile(const chain_run *run, const int64_t *where, int64_t first, int64_t at, int64_t count, float *tiles)
{
    const struct kit_chain *chain = run->chain;
    uint32_t inner = chain->rank - 1;

    INLAY_CHECK(count > 0 && count <= TILE);
    for (uint32_t link_index = 0; link_index < chain->link_count; link_index++) {
        const struct link *link = &chain->links[link_index];
        const float *in[KIT_ROW_INPUTS];
        float *out = link->to_kind == AT_TILE ? tiles + (size_t)link->to * TILE : output_at(run, link->to) + first + at;

        for (uint32_t i = 0; i < link->in_count; i++) {
            const struct outside *outside;
            const float *data;

            if (link->from_kind[i] == AT_TILE) {
                in[i] = tiles + (size_t)link->from[i] * TILE;
                continue;
            }
            if (link->from_kind[i] == AT_OUTPUT) {
                in[i] = output_at(run, link->from[i]) + first + at;
                continue;
            }
            outside = &chain->outsides[link->from[i]];
            data = outside_at(run, outside) + at * outside->strides[inner];
            for (uint32_t d = 0; d < inner; d++)
                data += where[d] * outside->strides[d];
            in[i] = data;
        }
        link->row(link->state, out, in, link->step, count);
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
