#include "check/case.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/random.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

enum {
    MAX_BYTES = 1 << 28,
    ALIGN = 64,
    FEW_INTEGERS = 32,      /* their sum does not overflow if none is above ... */
    LARGE_INTEGER = 1 << 25 /* ... which is more than a float counts to */
};

void case_init(op_case *entry, const char *domain, const char *op_type, int64_t opset)
{
    memset(entry, 0, sizeof *entry);
    (void)snprintf(entry->domain, sizeof entry->domain, "%s", domain);
    (void)snprintf(entry->op_type, sizeof entry->op_type, "%s", op_type);
    entry->opset = opset;
    entry->out_count = 1;
}

void case_deinit(op_case *entry)
{
    arena_deinit(&entry->arena);
}

case_tensor *case_input(op_case *entry, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool constant)
{
    case_tensor *tensor = entry->in_count < CASE_INPUTS && rank <= CASE_RANK ? &entry->in[entry->in_count] : NULL;

    if (tensor == NULL)
        return NULL;
    INLAY_CHECK(rank == 0 || dims != NULL);
    *tensor = (case_tensor){ .dtype = dtype, .rank = rank, .low = -8, .high = 8, .constant = constant };
    if (rank > 0)
        memcpy(tensor->dims, dims, rank * sizeof *dims);
    entry->in_count++;
    return tensor;
}

bool case_attr(op_case *entry, const inlay_attr_info *attr)
{
    if (entry->attr_count == CASE_ATTRS)
        return false;
    entry->attrs[entry->attr_count++] = *attr;
    return true;
}

static float random_float(uint64_t *state)
{
    return (float)((double)(random_bits(state) >> 40) / (double)(1 << 23) * 2.0 - 2.0);
}

static void put_float(inlay_dtype dtype, void *data, int64_t index, double value)
{
    float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    if (dtype == INLAY_FLOAT)
        ((float *)data)[index] = narrow;
    else if (dtype == INLAY_DOUBLE)
        ((double *)data)[index] = value;
    else if (dtype == INLAY_FLOAT16)
        ((uint16_t *)data)[index] = element_half(narrow);
    else
        ((uint16_t *)data)[index] = (uint16_t)(bits >> 16); /* bfloat16, truncated */
}

static void put_integer(inlay_dtype dtype, void *data, int64_t index, int64_t value)
{
    switch (inlay_dtype_bits(dtype)) {
    case 8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    case 16:
        ((uint16_t *)data)[index] = (uint16_t)value;
        break;
    case 32:
        ((uint32_t *)data)[index] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)data)[index] = (uint64_t)value;
        break;
    }
}

static bool is_plain_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

static bool is_unsigned(inlay_dtype dtype)
{
    return dtype == INLAY_UINT8 || dtype == INLAY_UINT16 || dtype == INLAY_UINT32 || dtype == INLAY_UINT64;
}

static bool is_integer(inlay_dtype dtype)
{
    int64_t value;
    static const uint64_t zero;

    return dtype != INLAY_BOOL && element_integer(dtype, &zero, 0, &value);
}

static void random_words(inlay_str *words, int64_t count, uint64_t *state, struct arena *arena)
{
    static const char *const list[] = { "one", "Two", "three four", "", "FIVE", "a,b", "sieben" };

    for (int64_t i = 0; i < count; i++) {
        const char *word = list[random_bits(state) % 7];

        words[i] = (inlay_str){ arena_string(arena, word), strlen(word) };
        if (words[i].data == NULL)
            words[i] = (inlay_str){ "", 0 };
    }
}

/* Writes integers in [low, high], whose type has `bits` bits. */
static void random_integers(uint32_t bits, void *data, int64_t count, int64_t low, int64_t high, uint64_t *state)
{
    const uint64_t range = (uint64_t)(high - low + 1);

    INLAY_CHECK(low <= high);
    for (int64_t i = 0; i < count && bits == 8; i++)
        ((uint8_t *)data)[i] = (uint8_t)(low + (int64_t)(random_bits(state) % range));
    for (int64_t i = 0; i < count && bits == 16; i++)
        ((uint16_t *)data)[i] = (uint16_t)(low + (int64_t)(random_bits(state) % range));
    for (int64_t i = 0; i < count && bits == 32; i++)
        ((uint32_t *)data)[i] = (uint32_t)(low + (int64_t)(random_bits(state) % range));
    for (int64_t i = 0; i < count && bits == 64; i++)
        ((uint64_t *)data)[i] = (uint64_t)(low + (int64_t)(random_bits(state) % range));
}

/* Writes random elements: floats in [-2, 2), integers in [low, high], bools, words, or bit patterns of the 8-bit floats
 * and packed types. */
static void case_random_elements(inlay_dtype dtype, void *data, int64_t count, int64_t low, int64_t high,
                                 uint64_t *state, struct arena *arena)
{
    if (is_unsigned(dtype) && low < 0)
        low = 0;
    if (dtype == INLAY_STRING) {
        random_words(data, count, state, arena);
    } else if (dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128) {
        for (int64_t i = 0; i < 2 * count; i++)
            put_float(dtype == INLAY_COMPLEX64 ? INLAY_FLOAT : INLAY_DOUBLE, data, i, (double)random_float(state));
    } else if (dtype == INLAY_FLOAT) {
        for (int64_t i = 0; i < count; i++)
            ((float *)data)[i] = random_float(state);
    } else if (is_plain_float(dtype)) {
        for (int64_t i = 0; i < count; i++)
            put_float(dtype, data, i, (double)random_float(state));
    } else if (dtype == INLAY_BOOL) {
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)data)[i] = random_bits(state) >> 40 & 1;
    } else if (is_integer(dtype)) {
        random_integers(inlay_dtype_bits(dtype), data, count, low, high, state);
    } else { /* 8-bit floats and packed types: every bit pattern is a value */
        for (uint64_t i = 0; i < ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8; i++)
            ((uint8_t *)data)[i] = (uint8_t)(random_bits(state) >> 32) & 0x77;
    }
}

/* Gives random elements the magnitude of the tensor. Integers with a range of their own keep it. */
static void set_magnitude(const case_tensor *tensor, uint64_t *state)
{
    const bool is_large = tensor->magnitude == CASE_LARGE, is_ranged = tensor->low != -8 || tensor->high != 8;
    const int64_t high = inlay_dtype_bits(tensor->dtype) == 8 ? 255 : LARGE_INTEGER;
    double re, im;

    if (tensor->magnitude == CASE_USUAL)
        return;
    if (tensor->dtype == INLAY_FLOAT || tensor->dtype == INLAY_DOUBLE)
        for (int64_t i = 0; i < tensor->count && element_number(tensor->dtype, tensor->data, i, &re, &im); i++)
            put_float(tensor->dtype, tensor->data, i,
                      is_large                         ? 64 * re
                      : tensor->magnitude == CASE_FEW  ? floor(2 * re + 0.5) / 2
                      : tensor->magnitude == CASE_HUGE ? 0x1p20 * re
                                                       : 100 + re);
    else if (is_large && is_integer(tensor->dtype) && !is_ranged && (high == 255 || tensor->count <= FEW_INTEGERS))
        case_random_elements(tensor->dtype, tensor->data, tensor->count, is_unsigned(tensor->dtype) ? 0 : -high, high,
                             state, NULL);
}

static void put_given(case_tensor *tensor)
{
    for (int64_t i = 0; i < tensor->count && tensor->given_count > 0; i++) {
        double value = tensor->given[i % tensor->given_count];

        if (is_plain_float(tensor->dtype))
            put_float(tensor->dtype, tensor->data, i, value);
        else if (is_integer(tensor->dtype) || tensor->dtype == INLAY_BOOL)
            put_integer(tensor->dtype, tensor->data, i, (int64_t)value);
    }
}

inlay_status case_fill(op_case *entry, uint64_t seed)
{
    uint64_t state = seed;

    for (uint32_t i = 0; i < entry->in_count; i++) {
        case_tensor *tensor = &entry->in[i];
        size_t bytes;
        char *room;

        if (tensor->same_as > 0) {
            const case_tensor *same = &entry->in[tensor->same_as - 1];

            tensor->data = same->data;
            tensor->bytes = same->bytes;
            tensor->count = same->count;
        }
        if (tensor->dtype == INLAY_UNDEFINED || tensor->data != NULL)
            continue;
        if (!dims_count(tensor->dims, tensor->rank, &tensor->count) ||
            !dtype_bytes(tensor->dtype, tensor->count, &bytes) || bytes > MAX_BYTES)
            return INLAY_LIMIT_EXCEEDED;
        room = arena_alloc(&entry->arena, bytes + ALIGN);
        if (room == NULL)
            return INLAY_OUT_OF_MEMORY;
        tensor->data = room + (ALIGN - (uintptr_t)room % ALIGN) % ALIGN;
        tensor->bytes = bytes;
        case_random_elements(tensor->dtype, tensor->data, tensor->count, tensor->low, tensor->high, &state,
                             &entry->arena);
        set_magnitude(tensor, &state);
        put_given(tensor);
    }
    return INLAY_OK;
}

static size_t add(char *text, size_t bytes, size_t used, const char *format, ...)
{
    va_list args;
    int written;

    if (used >= bytes)
        return used;
    va_start(args, format);
    written = vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
    return written < 0 ? used : used + (size_t)written;
}

static size_t add_attr(char *text, size_t bytes, size_t used, const inlay_attr_info *attribute)
{
    used = add(text, bytes, used, " %s=", attribute->name.data);
    if (attribute->kind == INLAY_ATTR_INT)
        return add(text, bytes, used, "%lld", (long long)attribute->i);
    if (attribute->kind == INLAY_ATTR_FLOAT)
        return add(text, bytes, used, "%g", attribute->f);
    if (attribute->kind == INLAY_ATTR_STRING)
        return add(text, bytes, used, "'%s'", attribute->s.data);
    if (attribute->kind != INLAY_ATTR_INTS)
        return add(text, bytes, used, "(%u)", attribute->count);
    for (uint32_t i = 0; i < attribute->count; i++)
        used = add(text, bytes, used, "%s%lld", i == 0 ? "[" : ",", (long long)attribute->ints[i]);
    return add(text, bytes, used, attribute->count == 0 ? "[]" : "]");
}

/* Adds the elements of a short list, such as axes or scales. */
static size_t add_elements(char *text, size_t bytes, size_t used, const case_tensor *tensor)
{
    enum { MOST = 8 };
    double re, im;

    if (tensor->given_count == 0 || tensor->data == NULL || tensor->count < 1 || tensor->count > MOST ||
        tensor->dtype == INLAY_STRING)
        return used;
    for (int64_t i = 0; i < tensor->count && element_number(tensor->dtype, tensor->data, i, &re, &im); i++)
        used = add(text, bytes, used, "%s%.9g", i == 0 ? "=[" : ",", re);
    return add(text, bytes, used, "]");
}

char *case_text(const op_case *entry, char *text, size_t bytes)
{
    static const char *const magnitudes[CASE_MAGNITUDES] = { "", "(large)", "(shifted)", "(few)", "(huge)" };
    size_t used = add(text, bytes, 0, "%s-%lld", entry->op_type, (long long)entry->opset);

    for (uint32_t i = 0; i < entry->in_count; i++) {
        const case_tensor *tensor = &entry->in[i];

        if (tensor->dtype == INLAY_UNDEFINED) {
            used = add(text, bytes, used, " -");
            continue;
        }
        used = add(text, bytes, used, " %s[", inlay_dtype_name(tensor->dtype));
        for (uint32_t d = 0; d < tensor->rank; d++)
            used = add(text, bytes, used, "%s%lld", d > 0 ? "," : "", (long long)tensor->dims[d]);
        used = add(text, bytes, used, "]");
        used = add_elements(text, bytes, used, tensor);
        used = add(text, bytes, used, "%s", magnitudes[tensor->magnitude]);
        used = add(text, bytes, used, "%s", tensor->constant ? "!" : "");
        if (tensor->same_as > 0)
            used = add(text, bytes, used, "(input %u)", tensor->same_as - 1);
    }
    for (uint32_t i = 0; i < entry->attr_count; i++)
        used = add_attr(text, bytes, used, &entry->attrs[i]);
    return text;
}

void case_fail(case_failures *failures, const op_case *entry, const char *expected, const char *fix, const char *format,
               ...)
{
    char text[256], got[600];
    va_list args;

    if (failures->count++ >= failures->most)
        return;
    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    check_fail(failures->check, failures->group, case_text(entry, text, sizeof text), expected, fix, "%s", got);
}

bool case_fail_others(const case_failures *failures, const char *subject)
{
    if (failures->count <= failures->most)
        return false;
    check_fail(failures->check, failures->group, subject, "no failure", "see the lines above", "%u further failures",
               failures->count - failures->most);
    return true;
}

inlay_status case_import(const op_case *entry, graph_model *model)
{
    graph_opset *list = arena_array(&model->arena, model->opset_count + (size_t)1, sizeof *list);

    if (graph_model_opset(model, entry->domain) != 0)
        return INLAY_OK;
    if (list == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (model->opset_count > 0)
        memcpy(list, model->opsets, model->opset_count * sizeof *list);
    list[model->opset_count].domain = arena_string(&model->arena, entry->domain);
    list[model->opset_count].version = entry->opset;
    if (list[model->opset_count].domain == NULL)
        return INLAY_OUT_OF_MEMORY;
    model->opsets = list;
    model->opset_count++;
    return INLAY_OK;
}

/* Appends to a list in the arena, which is copied each time. */
static bool append(struct arena *arena, uint32_t **list, uint32_t *count, uint32_t value)
{
    uint32_t *more = arena_array(arena, *count + (size_t)1, sizeof *more);

    if (more == NULL)
        return false;
    if (*count > 0)
        memcpy(more, *list, *count * sizeof *more);
    more[(*count)++] = value;
    *list = more;
    return true;
}

/* Adds a graph input or a constant for an input of the case. INLAY_NONE: no memory. */
static uint32_t add_input(const case_tensor *tensor, struct graph *graph, uint32_t known)
{
    struct arena *arena = &graph->model->arena;
    uint32_t value = graph_add_value(graph, NULL, 0);
    inlay_dim *dims = arena_array(arena, tensor->rank, sizeof *dims);
    char symbol[32];

    if (value == INLAY_NONE || dims == NULL)
        return INLAY_NONE;
    if (tensor->constant)
        return graph_set_constant(graph, value, tensor->dtype, tensor->rank, tensor->dims, tensor->data,
                                  tensor->bytes) == INLAY_OK
                   ? value
                   : INLAY_NONE;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        dims[d] = (inlay_dim){ .value = tensor->dims[d], .kind = INLAY_DIM_FIXED };
        if (known == CASE_SYMBOLS) {
            (void)snprintf(symbol, sizeof symbol, "n%lld", (long long)tensor->dims[d]); /* equal sizes, equal symbols */
            dims[d] =
                (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = graph_symbol(graph->model, symbol) };
        }
    }
    graph->values[value].info.dtype = tensor->dtype;
    graph->values[value].info.rank = known == CASE_RANK_UNKNOWN ? INLAY_RANK_UNKNOWN : tensor->rank;
    graph->values[value].info.dims = dims;
    return append(arena, &graph->inputs, &graph->input_count, value) ? value : INLAY_NONE;
}

graph_node *case_add(const op_case *entry, struct graph *graph, uint32_t known)
{
    graph_node *node = graph_add_node(graph, entry->op_type, entry->domain, NULL, entry->in_count, entry->out_count);

    if (node == NULL)
        return NULL;
    node->opset = entry->opset;
    for (uint32_t i = 0; i < entry->in_count; i++) {
        if (entry->in[i].dtype == INLAY_UNDEFINED)
            continue;
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = entry->in[i].same_as > 0
                                                            ? node->info.inputs[entry->in[i].same_as - 1]
                                                            : add_input(&entry->in[i], graph, known);
        if (node->info.inputs[i] == INLAY_NONE)
            return NULL;
    }
    for (uint32_t i = 0; i < entry->attr_count; i++)
        if (graph_set_attr(graph, node, &entry->attrs[i]) != INLAY_OK)
            return NULL;
    for (uint32_t o = 0; o < entry->out_count; o++) {
        uint32_t value = graph_add_value(graph, NULL, 0);

        if (value == INLAY_NONE || !append(&graph->model->arena, &graph->outputs, &graph->output_count, value))
            return NULL;
        ((uint32_t *)(uintptr_t)node->info.outputs)[o] = value;
    }
    return node;
}

/* Infers the output shapes that depend on the elements of inputs, as the host does when it reaches the node. */
static inlay_status infer_with_data(const op_case *entry, case_instance *built, inlay_diag *diag)
{
    const struct graph *graph = built->model->main;
    const graph_node *node = graph->nodes[built->node];
    inlay_value_info in[CASE_INPUTS], out[CASE_OUTPUTS];
    const inlay_value_info *ins[CASE_INPUTS];
    inlay_value_info *outs[CASE_OUTPUTS];
    inlay_status status;

    for (uint32_t i = 0; i < entry->in_count; i++) {
        const case_tensor *tensor = &entry->in[i];
        inlay_dim *dims = arena_array(&built->arena, tensor->rank, sizeof *dims);

        ins[i] = NULL;
        if (tensor->dtype == INLAY_UNDEFINED)
            continue;
        if (dims == NULL)
            return no_memory(diag, "for a graph of one node");
        in[i] = graph->values[node->info.inputs[i]].info;
        in[i].rank = tensor->rank;
        in[i].dims = dims;
        for (uint32_t d = 0; d < tensor->rank; d++)
            dims[d] = (inlay_dim){ .value = tensor->dims[d], .kind = INLAY_DIM_FIXED };
        if (tensor->dtype != INLAY_STRING && tensor->count <= 64) {
            in[i].data = tensor->data;
            in[i].data_bytes = tensor->bytes;
        }
        ins[i] = &in[i];
    }
    for (uint32_t output = 0; output < entry->out_count; output++) {
        out[output] = graph->values[node->info.outputs[output]].info;
        outs[output] = &out[output];
    }
    status = graph_infer_node(built->model, node, ins, outs, &built->arena, diag);
    for (uint32_t output = 0; status == INLAY_OK && output < entry->out_count; output++) {
        inlay_value_state *state = &built->states[node->info.outputs[output]];
        int64_t *dims =
            out[output].rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(&built->arena, out[output].rank, sizeof *dims);

        for (uint32_t d = 0; dims != NULL && d < out[output].rank; d++)
            dims[d] = out[output].dims[d].kind == INLAY_DIM_FIXED ? out[output].dims[d].value : -1;
        *state = (inlay_value_state){ .dims = dims, .rank = out[output].rank, .dtype = out[output].dtype };
    }
    return status;
}

/* If an output size depends on data, the host passes the elements of small integer inputs to specialize. */
static void show_data(const op_case *entry, case_instance *built)
{
    const struct graph *graph = built->model->main;
    const graph_node *node = graph->nodes[built->node];
    bool depends = false;

    for (uint32_t output = 0; output < entry->out_count; output++) {
        const inlay_value_info *info = &graph->values[node->info.outputs[output]].info;

        depends = depends || info->rank == INLAY_RANK_UNKNOWN;
        for (uint32_t d = 0; !depends && d < info->rank; d++)
            depends = info->dims[d].kind == INLAY_DIM_UNKNOWN;
    }
    for (uint32_t i = 0; depends && i < entry->in_count; i++) {
        const case_tensor *tensor = &entry->in[i];

        if ((tensor->dtype != INLAY_INT64 && tensor->dtype != INLAY_INT32) || tensor->count > 64)
            continue;
        built->states[node->info.inputs[i]].data = tensor->data;
        built->states[node->info.inputs[i]].data_bytes = tensor->bytes;
    }
}

static inlay_status make_states(const op_case *entry, case_instance *built, inlay_diag *diag)
{
    const struct graph *graph = built->model->main;
    const graph_node *node = graph->nodes[built->node];
    inlay_status status;

    INLAY_CHECK(built->input_count == 0 && built->output_count == 0 && entry->in_count <= CASE_INPUTS);
    built->states = arena_array(&built->arena, graph->value_count + (size_t)1, sizeof *built->states);
    if (built->states == NULL)
        return no_memory(diag, "for a graph of one node");
    for (uint32_t i = 0; i < entry->in_count; i++) {
        const case_tensor *tensor = &entry->in[i];

        if (tensor->dtype == INLAY_UNDEFINED || tensor->same_as > 0)
            continue;
        built->states[node->info.inputs[i]] =
            (inlay_value_state){ .dims = tensor->dims, .rank = tensor->rank, .dtype = tensor->dtype };
        if (tensor->constant) {
            built->states[node->info.inputs[i]].data = tensor->data;
            built->states[node->info.inputs[i]].data_bytes = tensor->bytes;
        } else {
            built->input_of[built->input_count] = i;
            built->inputs[built->input_count++] = node->info.inputs[i];
        }
    }
    for (uint32_t output = 0; output < entry->out_count; output++)
        built->outputs[built->output_count++] = node->info.outputs[output];
    show_data(entry, built);
    status = infer_with_data(entry, built, diag);
    for (uint32_t i = 0; i < entry->in_count && built->node > 0; i++) /* the same types for the node in front */
        if (entry->in[i].dtype != INLAY_UNDEFINED)
            built->states[graph->nodes[0]->info.inputs[i]] = built->states[node->info.inputs[i]];
    for (uint32_t o = 0; o < entry->out_count && built->node > 0; o++)
        built->states[graph->nodes[0]->info.outputs[o]] = built->states[node->info.outputs[o]];
    return status;
}

static inlay_status build(const op_case *entry, const graph_operators *operators, uint32_t known, bool behind,
                          case_instance *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    INLAY_CHECK(known <= CASE_RANK_UNKNOWN);
    memset(out, 0, sizeof *out);
    out->model = graph_model_create();
    if (out->model == NULL)
        return no_memory(diag, "for a graph of one node");
    if (case_import(entry, out->model) != INLAY_OK || case_add(entry, out->model->main, known) == NULL) {
        status = no_memory(diag, "for a graph of one node");
        goto done;
    }
    if (behind && case_add(entry, out->model->main, known) == NULL) {
        status = no_memory(diag, "for a graph of two nodes");
        goto done;
    }
    INLAY_TRY(graph_finish(out->model->main, diag));
    INLAY_TRY(graph_bind(out->model, operators, diag));
    INLAY_TRY(graph_infer(out->model, diag));
    INLAY_TRY(graph_snapshot(out->model->main, &out->arena, &out->snapshot, diag));
    out->node = behind;
    INLAY_TRY(make_states(entry, out, diag));
done:
    if (status != INLAY_OK)
        case_instance_deinit(out);
    return status;
}

inlay_status case_graph(const op_case *entry, const graph_operators *operators, uint32_t known, case_instance *out,
                        inlay_diag *diag)
{
    return build(entry, operators, known, false, out, diag);
}

inlay_status case_graph_behind(const op_case *entry, const graph_operators *operators, case_instance *out,
                               inlay_diag *diag)
{
    return build(entry, operators, CASE_SIZES, true, out, diag);
}

void case_instance_deinit(case_instance *built)
{
    graph_model_destroy(built->model);
    arena_deinit(&built->arena);
    built->model = NULL;
}
