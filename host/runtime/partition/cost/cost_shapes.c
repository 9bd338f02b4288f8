/* partition/cost/cost_shapes.c - infers the shapes at which a graph is priced. */
#include "base/checked.h"
#include "infer/dim_sums.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "partition/cost/cost.h"
#include "partition/cost/cost_bounds.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BATCH = 1,
    CHANNELS = 3,
    IMAGE = 224,
    LENGTH = 64,     /* of dimensions that are neither batch nor image: usually a sequence */
    SAMPLES = 16000, /* of sound: one second at 16 kHz */
    ESTIMATE = 16,   /* of data-dependent sizes */
    SIZE_MAX_ASSUMED = 1 << 30
};

struct pricing {
    const struct graph *graph;
    cost_sizes *sizes;
    inlay_value_info *infos; /* [value_count] with concrete sizes */
    struct arena *arena;
    struct arena scratch;
};

void cost_sizes_deinit(cost_sizes *sizes)
{
    free(sizes->symbols);
    sizes->symbols = NULL;
    sizes->symbol_count = 0;
}

/* Allocates the entries of all symbols of the model; new ones are unknown. */
static bool reserve_symbols(cost_sizes *sizes, uint32_t count)
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

static const inlay_symbol_info *symbol_info(const struct graph *graph, uint32_t symbol)
{
    return symbol > 0 && symbol < graph->model->symbol_count ? &graph->model->symbols[symbol] : NULL;
}

static int64_t within_bounds(const inlay_symbol_info *info, int64_t size)
{
    if (info != NULL && size > info->max)
        size = info->max;
    if (info != NULL && size < info->min)
        size = info->min;
    return size < SIZE_MAX_ASSUMED ? size : SIZE_MAX_ASSUMED;
}

/* Records the size of a symbolic dimension, unless its symbol has a size already. */
static void record_symbol(cost_sizes *sizes, const inlay_dim *dim, int64_t size)
{
    if (dim->kind == INLAY_DIM_SYMBOLIC && dim->symbol < sizes->symbol_count && sizes->symbols[dim->symbol] < 0)
        sizes->symbols[dim->symbol] = size;
}

/* Sets the sizes of the symbols that the user assumes. */
static void set_assumed_sizes(struct pricing *pricing)
{
    INLAY_CHECK(pricing->sizes->symbol_count >= pricing->graph->model->symbol_count);
    for (uint32_t i = 0; i < pricing->sizes->assumed_count; i++) {
        const cost_assumption *assumption = &pricing->sizes->assumed[i];

        for (uint32_t k = 1; k < pricing->graph->model->symbol_count && assumption->size >= 0; k++)
            if (pricing->graph->model->symbols[k].name.bytes == assumption->name_bytes &&
                memcmp(pricing->graph->model->symbols[k].name.data, assumption->name, assumption->name_bytes) == 0)
                pricing->sizes->symbols[k] = assumption->size < SIZE_MAX_ASSUMED ? assumption->size : SIZE_MAX_ASSUMED;
    }
}

/* Whether one of the words (separated by blanks) is a part of the name, regardless of case. */
static bool has_word(const char *name, const char *words)
{
    while (*words != '\0') {
        const size_t bytes = strcspn(words, " ");
        char word[16];

        (void)snprintf(word, sizeof word, "%.*s", (int)bytes, words);
        if (strcasestr(name, word) != NULL)
            return true;
        words += bytes + (words[bytes] == ' ');
    }
    return false;
}

static bool is_one_letter(const char *name, const char *letters)
{
    return name[0] != '\0' && name[1] == '\0' && strchr(letters, name[0]) != NULL;
}

static bool has_past(const struct graph_model *model)
{
    for (uint32_t i = 1; i < model->symbol_count; i++)
        if (has_word(model->symbols[i].name.data, "past"))
            return true;
    return false;
}

/* The size that the name of a dimension means; -1: it has no known meaning. */
static int64_t size_of_name(const struct graph_model *model, const char *name)
{
    if (has_word(name, "batch") || is_one_letter(name, "NB"))
        return BATCH;
    if (has_word(name, "total") && has_word(name, "seq length") && has_past(model))
        return 2 * LENGTH; /* of the past and the new ones */
    if (has_word(name, "past seq length token text"))
        return LENGTH;
    if (has_word(name, "sample audio wave"))
        return SAMPLES;
    if (has_word(name, "height width"))
        return IMAGE;
    return -1;
}

static int64_t guess(const struct pricing *pricing, const inlay_value_info *value, uint32_t d,
                     const inlay_symbol_info *symbol);

/* The size that the first input with that symbol will have; -1: no input has it. */
static int64_t guess_symbol(const struct pricing *pricing, uint32_t symbol)
{
    for (uint32_t i = 0; i < pricing->graph->input_count; i++) {
        const inlay_value_info *info = &pricing->infos[pricing->graph->inputs[i]];

        for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && info->dims != NULL && d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_SYMBOLIC && info->dims[d].symbol == symbol)
                return guess(pricing, info, d, symbol_info(pricing->graph, symbol));
    }
    return -1;
}

struct sum_of_sizes {
    const struct pricing *pricing;
    const char *name;
};

/* For sum_read_with(): the size of a part of a sum. A call such as floor(...) is a single part, itself, and unknown. */
static int64_t size_of_part(void *ctx, const char *name, size_t bytes)
{
    const struct sum_of_sizes *whole = ctx;
    const struct pricing *pricing = whole->pricing;
    const struct graph_model *model = pricing->graph->model;
    char text[MAX_TEXT + 1];

    if (strlen(whole->name) == bytes && memcmp(whole->name, name, bytes) == 0)
        return -1;
    for (uint32_t i = 1; i < model->symbol_count; i++)
        if (model->symbols[i].name.bytes == bytes && memcmp(model->symbols[i].name.data, name, bytes) == 0)
            return pricing->sizes->symbols[i] >= 0 ? pricing->sizes->symbols[i] : guess_symbol(pricing, i);
    (void)snprintf(text, sizeof text, "%.*s", (int)bytes, name);
    return size_of_name(model, text);
}

/* The size of a dimension whose name is a sum, such as "past + new"; -1: it is none, or a part is unknown. */
static int64_t size_of_sum(const struct pricing *pricing, const char *name)
{
    struct sum_of_sizes whole = { pricing, name };
    struct sum sum;

    return strchr(name, ' ') != NULL && sum_read_with(name, size_of_part, &whole, &sum) ? sum_value(&sum) : -1;
}

/* A default size for dimension d of a graph input: by the meaning of its name, or else by its place. */
static int64_t guess(const struct pricing *pricing, const inlay_value_info *value, uint32_t d,
                     const inlay_symbol_info *symbol)
{
    const char *name = symbol != NULL ? symbol->name.data : "";
    const bool image = value->dtype != INLAY_INT64 && value->dtype != INLAY_INT32 &&
                       (value->rank == 4 || (value->rank == 3 && value->dims[0].kind == INLAY_DIM_FIXED &&
                                             value->dims[0].value == CHANNELS));
    int64_t size = size_of_sum(pricing, name);

    if (size < 0)
        size = size_of_name(pricing->graph->model, name);
    if (size < 0 && image && (has_word(name, "channel") || is_one_letter(name, "C")))
        size = CHANNELS;
    if (size < 0 && image && is_one_letter(name, "HW"))
        size = IMAGE;
    if (size == SAMPLES && d == 0 && value->rank > 1) /* rows of a table */
        size = BATCH;
    if (size >= 0)
        return within_bounds(symbol, size);
    if (d == 0)
        return within_bounds(symbol, BATCH);
    if (image)
        return within_bounds(symbol, d + 3 == value->rank ? CHANNELS : IMAGE);
    return within_bounds(symbol, LENGTH);
}

static inlay_dim fixed(int64_t size)
{
    return (inlay_dim){ .value = size, .kind = INLAY_DIM_FIXED };
}

/* Fixes every dimension of a graph input: given, known, or guessed. */
static bool fix_input(struct pricing *pricing, uint32_t value, const cost_input *given)
{
    inlay_value_info *info = &pricing->infos[value];
    bool is_given = given != NULL && given->rank <= INLAY_MAX_RANK &&
                    (given->rank == info->rank || info->rank == INLAY_RANK_UNKNOWN);
    inlay_dim *dims;

    if (is_given)
        info->rank = given->rank;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    dims = arena_array(pricing->arena, (size_t)info->rank + 1, sizeof *dims);
    for (uint32_t d = 0; dims != NULL && d < info->rank; d++) {
        const inlay_dim *old = info->dims != NULL ? &info->dims[d] : &(inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
        const inlay_symbol_info *symbol =
            old->kind == INLAY_DIM_SYMBOLIC ? symbol_info(pricing->graph, old->symbol) : NULL;

        if (old->kind == INLAY_DIM_FIXED)
            dims[d] = *old;
        else if (is_given && given->dims[d] >= 0)
            dims[d] = fixed(given->dims[d]);
        else if (symbol != NULL && pricing->sizes->symbols[old->symbol] >= 0)
            dims[d] = fixed(pricing->sizes->symbols[old->symbol]);
        else
            dims[d] = fixed(pricing->sizes->ones             ? within_bounds(symbol, 1)
                            : pricing->graph->parent == NULL ? guess(pricing, info, d, symbol)
                                                             : within_bounds(symbol, ESTIMATE));
        record_symbol(pricing->sizes, old, dims[d].value);
    }
    info->dims = dims;
    return dims != NULL;
}

/* Fixes the dimensions that inference left open: with an observed size, the size of the same symbol, or an estimate. */
static bool fix_output(struct pricing *pricing, const graph_node *node, uint32_t output,
                       const inlay_value_info *const *in)
{
    const uint32_t value = node->info.outputs[output];
    const inlay_value_info *was = &pricing->graph->values[value].info; /* as declared in the model */
    const cost_input *observed = pricing->sizes->seen != NULL ? &pricing->sizes->seen[value] : NULL;
    inlay_value_info *info = &pricing->infos[value];
    inlay_dim *dims;

    INLAY_CHECK(output < node->info.output_count);
    if (info->rank == INLAY_RANK_UNKNOWN && was->rank != INLAY_RANK_UNKNOWN) {
        info->rank = was->rank;
        info->dims = was->dims;
    }
    if (info->rank == INLAY_RANK_UNKNOWN && observed != NULL)
        info->rank = observed->rank;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (observed != NULL && observed->rank != info->rank)
        observed = NULL;
    dims = arena_array(pricing->arena, (size_t)info->rank + 1, sizeof *dims);
    for (uint32_t d = 0; dims != NULL && d < info->rank; d++) {
        const inlay_dim unknown = { .value = -1, .kind = INLAY_DIM_UNKNOWN };
        const inlay_dim *found = info->dims != NULL ? &info->dims[d] : &unknown;
        const inlay_dim *old = was->rank == info->rank ? &was->dims[d] : found;
        const inlay_symbol_info *symbol =
            old->kind == INLAY_DIM_SYMBOLIC ? symbol_info(pricing->graph, old->symbol) : NULL;

        if (found->kind == INLAY_DIM_FIXED)
            dims[d] = *found;
        else if (old->kind == INLAY_DIM_FIXED)
            dims[d] = *old;
        else if (observed != NULL && observed->dims[d] >= 0)
            dims[d] = fixed(within_bounds(symbol, observed->dims[d]));
        else if (symbol != NULL && pricing->sizes->symbols[old->symbol] >= 0)
            dims[d] = fixed(pricing->sizes->symbols[old->symbol]);
        else
            dims[d] = fixed(within_bounds(symbol, cost_estimate(&node->info, in, output, d, ESTIMATE)));
        record_symbol(pricing->sizes, old, dims[d].value);
    }
    info->dims = dims;
    return dims != NULL;
}

/* Copies the elements that inference knows. If it knows every element of an integer tensor, they also become the
 * tensor's data. */
static bool fix_elements(struct pricing *pricing, inlay_value_info *info)
{
    bool wide = info->dtype == INLAY_INT64;
    uint64_t count = info->element_count;
    char *data;

    if (info->elements == NULL)
        return true;
    info->elements = arena_copy(pricing->arena, info->elements, (size_t)count * sizeof *info->elements);
    if (info->elements == NULL)
        return false;
    if (!wide && info->dtype != INLAY_INT32)
        return true;
    for (uint64_t i = 0; i < count; i++)
        if (info->elements[i].kind != INLAY_DIM_FIXED)
            return true;
    data = arena_array(pricing->arena, (size_t)count + 1, 8);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        int64_t element = info->elements[i].value;
        int32_t narrow = (int32_t)element;
        memcpy(data + i * (wide ? 8 : 4), wide ? (void *)&element : (void *)&narrow, wide ? 8 : 4);
    }
    info->data = data;
    info->data_bytes = count * (wide ? 8 : 4);
    return data != NULL;
}

/* Infers a node at the concrete sizes. If inference fails because guessed sizes are inconsistent, the outputs are
 * unknown. */
static bool fix_node(struct pricing *pricing, const graph_node *node)
{
    const inlay_value_info **in = arena_array(&pricing->scratch, (size_t)node->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(&pricing->scratch, (size_t)node->info.output_count + 1, sizeof *out);
    inlay_status status;

    if (in == NULL || out == NULL)
        return false;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        in[i] = node->info.inputs[i] == INLAY_NONE ? NULL : &pricing->infos[node->info.inputs[i]];
    for (uint32_t i = 0; i < node->info.output_count; i++)
        out[i] = node->info.outputs[i] == INLAY_NONE ? NULL : &pricing->infos[node->info.outputs[i]];
    status = graph_infer_node(pricing->graph->model, node, in, out, &pricing->scratch, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return false;
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        if (out[i] == NULL)
            continue;
        if (status != INLAY_OK) {
            pricing->sizes->conflict = true;
            out[i]->rank = INLAY_RANK_UNKNOWN;
            out[i]->elements = NULL;
        }
        if (!fix_output(pricing, node, i, in) || !fix_elements(pricing, out[i]))
            return false;
    }
    return true;
}

static bool fix_graph(struct pricing *pricing)
{
    const struct graph *graph = pricing->graph;

    for (uint32_t i = 0; i < graph->input_count; i++)
        if (!fix_input(pricing, graph->inputs[i],
                       graph->parent == NULL && i < pricing->sizes->input_count ? &pricing->sizes->inputs[i] : NULL))
            return false;
    for (uint32_t i = 0; i < graph->captured_count; i++)
        if ((graph->values[graph->captured[i]].info.flags & INLAY_VALUE_CONSTANT) == 0 &&
            !fix_input(pricing, graph->captured[i], NULL))
            return false;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        if (!fix_node(pricing, graph->nodes[node]))
            return false;
        arena_reset(&pricing->scratch);
    }
    return true;
}

/* Returns whether all shapes are fixed already. */
static bool all_shapes_fixed(const struct graph *graph)
{
    for (uint32_t value = 0; value < graph->value_count; value++)
        if (graph->values[value].info.kind == INLAY_VALUE_TENSOR && !graph_has_sizes(&graph->values[value].info))
            return false;
    return true;
}

static bool state_of(const inlay_value_info *info, struct arena *arena, inlay_value_state *out)
{
    int64_t *dims;

    *out = (inlay_value_state){
        .rank = info->rank, .dtype = info->dtype, .data = info->data, .data_bytes = info->data_bytes
    };
    if (info->rank != INLAY_RANK_UNKNOWN) {
        out->dims = dims = arena_array(arena, (size_t)info->rank + 1, sizeof *dims);
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].value;
        if (dims == NULL)
            return false;
    }
    if ((uintptr_t)info->data % 16 != 0) {
        bool copied = graph_constant_may_set_shapes(info);

        out->data = copied ? arena_copy(arena, info->data, (size_t)info->data_bytes) : NULL;
        return !copied || out->data != NULL;
    }
    return true;
}

inlay_value_state *cost_shapes(const struct graph *graph, const inlay_graph *snapshot, cost_sizes *sizes,
                               struct arena *arena)
{
    inlay_value_state *states = arena_array(arena, (size_t)snapshot->value_count + 1, sizeof *states);
    cost_sizes defaults = { 0 };
    struct pricing pricing = { .graph = graph, .sizes = sizes != NULL ? sizes : &defaults, .arena = arena };
    bool good;

    pricing.infos = arena_array(arena, (size_t)graph->value_count + 1, sizeof *pricing.infos);
    good = states != NULL && pricing.infos != NULL && reserve_symbols(pricing.sizes, graph->model->symbol_count);
    for (uint32_t value = 0; good && value < graph->value_count; value++)
        pricing.infos[value] = graph->values[value].info;
    if (good && !all_shapes_fixed(graph)) {
        set_assumed_sizes(&pricing);
        good = fix_graph(&pricing);
    }
    for (uint32_t value = 0; good && value < graph->value_count; value++)
        good = state_of(&pricing.infos[value], arena, &states[value]);
    arena_deinit(&pricing.scratch);
    cost_sizes_deinit(&defaults);
    return good ? states : NULL;
}
