/* graph/graph.c - building a model: values, nodes, attributes, symbols and the memory behind them. */
#include "graph/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that is not the arena's and goes with the model. */
struct graph_blob {
    graph_blob *next;
    void *address;
    size_t bytes;
    bool mapped;      /* munmap, otherwise free */
    graph_file_id id; /* of mappings */
};

/* What tells a node without a name from others, or NULL. */
static const char *first_output(const struct graph *g, const graph_node *n)
{
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] < g->value_count)
            return g->values[n->info.outputs[i]].info.name.data;
    return NULL;
}

inlay_status graph_fail(const struct graph *g, const graph_node *n, const char *tensor, inlay_status code,
                        inlay_diag *diag, const char *format, ...)
{
    char place[320] = "", text[448];
    const char *makes = n == NULL ? NULL : first_output(g, n);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n != NULL && n->info.name.bytes == 0 && makes != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', the node that makes '%.96s' (%.48s): ", g->name, makes,
                       n->info.op_type.data);
    else if (n != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', node '%.96s' (%.48s): ", g->name, n->info.name.data,
                       n->info.op_type.data);
    else if (g != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s': ", g->name);
    (void)inlay_fail(diag, code, "%s%s", place, text);
    if (diag == NULL || diag->struct_size < sizeof *diag)
        return code;
    for (char *c = diag->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (n != NULL)
        (void)snprintf(diag->node, sizeof diag->node, "%s", n->info.name.data);
    if (tensor != NULL)
        (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", tensor);
    return code;
}

/* ------------------------------------------------------------------ the model */

graph_model *graph_model_create(void)
{
    graph_model *model = calloc(1, sizeof *model);

    if (model == NULL)
        return NULL;
    model->producer_name = model->producer_version = model->domain = model->doc = "";
    model->main = graph_create(model, NULL, "main");
    if (model->main == NULL || !ARENA_GROW(&model->arena, model->symbols, 0)) {
        graph_model_destroy(model);
        return NULL;
    }
    model->symbols[0] = (inlay_symbol_info){ .name = { "", 0 }, .max = INT64_MAX };
    model->symbol_count = 1;
    return model;
}

void graph_model_destroy(graph_model *model)
{
    if (model == NULL)
        return;
    while (model->blobs != NULL) {
        graph_blob *b = model->blobs;

        model->blobs = b->next;
        if (b->mapped)
            (void)munmap(b->address, b->bytes);
        else
            free(b->address);
        free(b);
    }
    names_deinit(&model->symbol_table);
    names_deinit(&model->schema_table);
    arena_deinit(&model->arena);
    free(model);
}

static inlay_status add_blob(graph_model *model, void *address, size_t bytes, const graph_file_id *id)
{
    graph_blob *b = malloc(sizeof *b);

    if (b == NULL)
        return INLAY_OUT_OF_MEMORY;
    *b = (graph_blob){ .next = model->blobs, .address = address, .bytes = bytes, .mapped = id != NULL };
    if (id != NULL)
        b->id = *id;
    model->blobs = b;
    return INLAY_OK;
}

void *graph_blob_alloc(graph_model *model, size_t bytes)
{
    size_t rounded = bytes;
    void *address;

    if (!__builtin_add_overflow(rounded, (size_t)63, &rounded))
        rounded &= ~(size_t)63;
    else
        return NULL;
    address = aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (address != NULL && add_blob(model, address, bytes, NULL) != INLAY_OK) {
        free(address);
        address = NULL;
    }
    return address;
}

inlay_status graph_blob_adopt(graph_model *model, void *block, size_t bytes)
{
    return add_blob(model, block, bytes, NULL);
}

bool graph_blob_owns(const graph_model *model, const void *data)
{
    for (const graph_blob *b = model->blobs; b != NULL; b = b->next)
        if (b->address == data && !b->mapped)
            return true;
    return false;
}

inlay_status graph_blob_map(graph_model *model, void *address, size_t bytes, const graph_file_id *id)
{
    return add_blob(model, address, bytes, id);
}

const graph_file_id *graph_blob_file(const graph_model *model, const void *data, size_t bytes, uint64_t *out_offset)
{
    for (const graph_blob *b = model->blobs; b != NULL; b = b->next) {
        uintptr_t at = (uintptr_t)data - (uintptr_t)b->address;

        if (!b->mapped || (uintptr_t)data < (uintptr_t)b->address || at > b->bytes || bytes > b->bytes - at)
            continue;
        *out_offset = at;
        return &b->id;
    }
    return NULL;
}

uint64_t graph_blob_mapped(const graph_model *model)
{
    uint64_t bytes = 0;

    for (const graph_blob *b = model->blobs; b != NULL; b = b->next)
        bytes += b->mapped ? b->bytes : 0;
    return bytes;
}

void graph_blob_forget(const graph_model *model, const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)data + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)data + bytes) & ~(page - 1);

    if (bytes < page || from >= to)
        return;
    for (const graph_blob *b = model->blobs; b != NULL; b = b->next)
        if (b->mapped && from >= (uintptr_t)b->address && to <= (uintptr_t)b->address + b->bytes)
            (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

int64_t graph_model_opset(const graph_model *model, const char *domain)
{
    if (domain[0] == '\0')
        domain = "ai.onnx";
    for (uint32_t i = 0; i < model->opset_count; i++)
        if (strcmp(model->opsets[i].domain, domain) == 0)
            return model->opsets[i].version;
    return 0;
}

bool graph_model_import(graph_model *model, const char *domain, int64_t version)
{
    graph_opset *list;

    if (graph_model_opset(model, domain) != 0)
        return true;
    list = arena_grown(&model->arena, model->opsets, model->opset_count, (size_t)model->opset_count + 1, sizeof *list);
    if (list == NULL)
        return false;
    list[model->opset_count++] = (graph_opset){ .domain = domain, .version = version };
    model->opsets = list;
    return true;
}

uint32_t graph_symbol(graph_model *model, const char *name)
{
    size_t bytes = strlen(name);
    uint32_t found = names_find(&model->symbol_table, name, bytes);
    char *copy;

    if (found != NAMES_NONE)
        return found;
    copy = arena_string_n(&model->arena, name, bytes);
    if (copy == NULL || !ARENA_GROW(&model->arena, model->symbols, model->symbol_count) ||
        !names_add(&model->symbol_table, copy, bytes, model->symbol_count, NULL))
        return 0;
    model->symbols[model->symbol_count] = (inlay_symbol_info){ .name = { copy, bytes }, .max = INT64_MAX };
    return model->symbol_count++;
}

/* ------------------------------------------------------------------ graphs, values, nodes */

struct graph *graph_create(graph_model *model, struct graph *parent, const char *name)
{
    struct graph *g = arena_alloc(&model->arena, sizeof *g);

    if (g == NULL)
        return NULL;
    g->model = model;
    g->parent = parent;
    g->name = arena_string(&model->arena, name);
    return g->name == NULL ? NULL : g;
}

/* Doubles an array that lives in the arena; what it leaves behind is at most as much again. */
static void *grown(graph_model *model, const void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    uint32_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *bigger = wanted > *capacity ? arena_grown(&model->arena, items, count, wanted, item_bytes) : NULL;

    if (bigger != NULL)
        *capacity = wanted;
    return bigger;
}

#define MADE_UP "inlay:" /* made-up value names are this and a number */

/* Keeps made-up names apart from those of the file, which may be a file that we wrote. */
static void note_name(graph_model *model, const char *name)
{
    const size_t prefix = sizeof MADE_UP - 1;

    if (strncmp(name, MADE_UP, prefix) == 0) {
        uint64_t number = strtoull(name + prefix, NULL, 10);

        if (number >= model->next_name && number < UINT64_MAX)
            model->next_name = number + 1;
    }
}

uint32_t graph_add_value(struct graph *g, const char *name, size_t name_bytes)
{
    graph_model *model = g->model;
    graph_value *v;
    char *copy;

    if (g->value_count == g->value_capacity) {
        graph_value *bigger = grown(model, g->values, g->value_count, &g->value_capacity, sizeof *g->values);

        if (bigger == NULL)
            return INLAY_NONE;
        g->values = bigger;
    }
    if (name != NULL) {
        copy = arena_string_n(&model->arena, name, name_bytes);
        if (copy != NULL)
            note_name(model, copy);
    } else {
        copy = arena_format(&model->arena, MADE_UP "%llu", (unsigned long long)model->next_name++);
        name_bytes = copy == NULL ? 0 : strlen(copy);
    }
    if (copy == NULL)
        return INLAY_NONE;
    v = &g->values[g->value_count];
    *v = (graph_value){ .info = { .name = { copy, name_bytes },
                                  .kind = INLAY_VALUE_TENSOR,
                                  .rank = INLAY_RANK_UNKNOWN,
                                  .producer = INLAY_NONE },
                        .declared_rank = INLAY_RANK_UNKNOWN };
    return g->value_count++;
}

uint32_t graph_find_value(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->value_count; i++)
        if (strcmp(g->values[i].info.name.data, name) == 0)
            return i;
    return INLAY_NONE;
}

static uint32_t *none_list(struct arena *a, uint32_t count)
{
    uint32_t *list = arena_array(a, count, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = INLAY_NONE;
    return list;
}

inlay_status graph_append_node(struct graph *g, graph_node *n)
{
    if (g->node_count == g->node_capacity) {
        graph_node **bigger = grown(g->model, g->nodes, g->node_count, &g->node_capacity, sizeof *g->nodes);

        if (bigger == NULL)
            return INLAY_OUT_OF_MEMORY;
        g->nodes = bigger;
    }
    g->nodes[g->node_count++] = n;
    return INLAY_OK;
}

graph_node *graph_add_node(struct graph *g, const char *op_type, const char *domain, const char *name,
                           uint32_t input_count, uint32_t output_count)
{
    struct arena *a = &g->model->arena;
    graph_node *n = arena_alloc(a, sizeof *n);
    const char *known_domain = domain == NULL || domain[0] == '\0' ? "ai.onnx" : domain;

    if (n == NULL)
        return NULL;
    n->info.op_type.data = arena_string(a, op_type);
    n->info.domain.data = known_domain != domain ? known_domain : arena_string(a, domain);
    n->info.name.data = arena_string(a, name == NULL ? "" : name);
    n->info.inputs = none_list(a, input_count);
    n->info.outputs = none_list(a, output_count);
    if (n->info.op_type.data == NULL || n->info.domain.data == NULL || n->info.name.data == NULL ||
        n->info.inputs == NULL || n->info.outputs == NULL)
        return NULL;
    n->info.op_type.bytes = strlen(n->info.op_type.data);
    n->info.domain.bytes = strlen(n->info.domain.data);
    n->info.name.bytes = strlen(n->info.name.data);
    n->info.input_count = input_count;
    n->info.output_count = output_count;
    n->info.attr_stride = sizeof(inlay_attr_info);
    n->opset = graph_model_opset(g->model, n->info.domain.data);
    n->overload = n->doc = "";
    n->made_by = g->model->pass;
    n->rewrite = g->model->rewrite;
    return graph_append_node(g, n) == INLAY_OK ? n : NULL;
}

inlay_status graph_set_constant(struct graph *g, uint32_t v, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                const void *data, uint64_t bytes)
{
    inlay_value_info *info = &g->values[v].info;
    inlay_dim *copy = arena_array(&g->model->arena, rank, sizeof *copy);

    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < rank; i++)
        copy[i] = (inlay_dim){ .value = dims[i], .kind = INLAY_DIM_FIXED };
    info->kind = INLAY_VALUE_TENSOR;
    info->dtype = dtype;
    info->rank = rank;
    info->dims = copy;
    info->data = data == NULL ? copy : data; /* an empty tensor has data too, or it would not look like a constant */
    info->data_bytes = bytes;
    info->flags |= INLAY_VALUE_CONSTANT;
    info->producer = INLAY_NONE;
    info->content_hash = 0;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ attributes */

const inlay_attr_info *graph_attr(const graph_node *n, const char *name)
{
    size_t bytes = strlen(name);

    for (uint32_t i = 0; i < n->info.attr_count; i++) {
        const inlay_attr_info *a = &n->info.attrs[i];

        if (a->name.bytes == bytes && memcmp(a->name.data, name, bytes) == 0)
            return a;
    }
    return NULL;
}

const graph_body *graph_body_named(const graph_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->body_count; i++)
        if (strcmp(n->bodies[i].attr, name) == 0)
            return &n->bodies[i];
    return NULL;
}

inlay_status graph_set_attr(struct graph *g, graph_node *n, const inlay_attr_info *attr)
{
    const inlay_attr_info *old = graph_attr(n, attr->name.data);
    uint32_t count = n->info.attr_count, at = old == NULL ? count : (uint32_t)(old - n->info.attrs);
    inlay_attr_info *list = arena_grown(&g->model->arena, n->info.attrs, count, count + 1, sizeof *list);

    /* The list may be shared with the schema or with another node, so it is never written to. */
    if (list == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (at >= n->own_attr_count) { /* new, or bind's default until now: move it to the end of the node's own */
        list[at] = list[n->own_attr_count];
        at = n->own_attr_count++;
    }
    list[at] = *attr;
    n->info.attrs = list;
    n->info.attr_count = old == NULL ? count + 1 : count;
    return INLAY_OK;
}

static inlay_status set_named(struct graph *g, graph_node *n, const char *name, inlay_attr_info attr)
{
    attr.name.data = arena_string(&g->model->arena, name);
    attr.name.bytes = strlen(name);
    return attr.name.data == NULL ? INLAY_OUT_OF_MEMORY : graph_set_attr(g, n, &attr);
}

inlay_status graph_set_attr_int(struct graph *g, graph_node *n, const char *name, int64_t value)
{
    return set_named(g, n, name, (inlay_attr_info){ .kind = INLAY_ATTR_INT, .i = value });
}

inlay_status graph_set_attr_ints(struct graph *g, graph_node *n, const char *name, const int64_t *values,
                                 uint32_t count)
{
    const int64_t *copy = arena_copy(&g->model->arena, values, count * sizeof *values);

    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    return set_named(g, n, name, (inlay_attr_info){ .kind = INLAY_ATTR_INTS, .ints = copy, .count = count });
}

inlay_status graph_set_attr_float(struct graph *g, graph_node *n, const char *name, double value)
{
    return set_named(g, n, name, (inlay_attr_info){ .kind = INLAY_ATTR_FLOAT, .f = value });
}

inlay_status graph_set_attr_string(struct graph *g, graph_node *n, const char *name, const char *value)
{
    const char *copy = arena_string(&g->model->arena, value);

    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    return set_named(g, n, name, (inlay_attr_info){ .kind = INLAY_ATTR_STRING, .s = { copy, strlen(value) } });
}

/* ------------------------------------------------------------------ constants in the place of inputs */

inlay_status graph_freeze_defaults(struct graph *g)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->input_count; i++) {
        uint32_t v = g->inputs[i];
        const inlay_tensor_view *t = g->values[v].default_value;

        if (t == NULL) {
            g->inputs[kept++] = v;
            continue;
        }
        if (graph_set_constant(g, v, t->dtype, t->rank, t->dims, t->data, t->bytes) != INLAY_OK)
            return INLAY_OUT_OF_MEMORY; /* dims are not there yet, so the value still is an input */
        g->values[v].default_value = NULL;
        g->values[v].info.flags &= ~(uint32_t)INLAY_VALUE_GRAPH_INPUT;
    }
    g->input_count = kept;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ what a node is */

bool graph_node_is_host(const struct graph *g, const graph_node *n)
{
    if (n->body_count > 0 || (n->row != NULL && (n->row->flags & OP_HOST) != 0))
        return true;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE && g->values[n->info.inputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && g->values[n->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    return false;
}

bool graph_node_is_random(const graph_node *n)
{
    if (n->custom != NULL)
        return (n->custom->flags & INLAY_OPERATOR_RANDOM) != 0;
    return n->row == NULL || (n->row->flags & OP_RANDOM) != 0;
}

bool graph_same_sizes(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->rank == INLAY_RANK_UNKNOWN || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].kind != INLAY_DIM_FIXED || b->dims[d].kind != INLAY_DIM_FIXED ||
            a->dims[d].value != b->dims[d].value)
            return false;
    return true;
}
