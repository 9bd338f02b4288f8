/* graph/graph.c - building a model: values, nodes, attributes, symbols and their memory. */
#include "base/nearest.h"
#include "base/order.h"
#include "base/pages.h"
#include "graph/blobs.h"
#include "graph/graph.h"
#include "inlay/check.h"
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory outside the arena that is freed with the model. */
struct graph_blob {
    graph_blob *next;
    void *address;
    size_t bytes;
    bool mapped;           /* munmap, otherwise free */
    bool spilled;          /* mapped from a temporary file */
    mapped_file *file;     /* of other mappings */
    graph_blob *next_file; /* in model->memory.files */
};

/* The name of the node's first output, which identifies a node without a name; or NULL. */
static const char *first_output(const struct graph *graph, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] < graph->value_count)
            return graph->values[node->info.outputs[i]].info.name.data;
    return NULL;
}

const char *graph_node_module(const graph_node *node)
{
    const char *source = node->source, *comma = source == NULL ? NULL : strstr(source, ", "), *colon;

    if (source == NULL || comma != NULL)
        return comma == NULL ? NULL : comma + 2;
    colon = strrchr(source, ':'); /* FILE:LINE has no module */
    return colon != NULL && colon[1] != '\0' && colon[1 + strspn(colon + 1, "0123456789")] == '\0' ? NULL : source;
}

const char *graph_node_scope(const graph_node *node, char text[GRAPH_SCOPE])
{
    const char *module = graph_node_module(node), *name = node->info.name.data, *end;

    if (module != NULL) {
        (void)snprintf(text, GRAPH_SCOPE, "%s", module);
        return text[0] != '\0' ? text : NULL;
    }
    name += strspn(name, "/");
    end = strrchr(name, '/');
    (void)snprintf(text, GRAPH_SCOPE, "/%.*s", end != NULL ? (int)(end - name) : 0, name);
    return end != NULL ? text : NULL;
}

bool graph_scope_cut(char *scope, uint32_t parts)
{
    const char separator = scope[0] == '/' ? '/' : '.';

    for (char *c = scope + 1; scope[0] != '\0' && *c != '\0'; c++)
        if (*c == separator && --parts == 0) {
            *c = '\0';
            return true;
        }
    return false;
}

void graph_add_source(const graph_node *node, inlay_diag *diag)
{
    const size_t used = strlen(diag->text);

    if (node->source != NULL && strstr(diag->text, node->source) == NULL &&
        used + strlen(node->source) + sizeof " (from )" <= sizeof diag->text)
        (void)snprintf(diag->text + used, sizeof diag->text - used, " (from %s)", node->source);
}

inlay_status graph_fail(const struct graph *graph, const graph_node *node, const char *tensor, inlay_status code,
                        inlay_diag *diag, const char *format, ...)
{
    char place[320] = "", text[448];
    const char *output = node == NULL ? NULL : first_output(graph, node);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (node != NULL && node->info.name.bytes == 0 && output != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', the node that produces '%.96s' (%.48s): ", graph->name,
                       output, node->info.op_type.data);
    else if (node != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s', node '%.96s' (%.48s): ", graph->name, node->info.name.data,
                       node->info.op_type.data);
    else if (graph != NULL)
        (void)snprintf(place, sizeof place, "graph '%.64s': ", graph->name);
    (void)inlay_fail(diag, code, "%s%s", place, text);
    if (diag == NULL || diag->struct_size < sizeof *diag)
        return code;
    if (node != NULL)
        graph_add_source(node, diag);
    for (char *at = diag->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    if (node != NULL)
        (void)snprintf(diag->node, sizeof diag->node, "%s", node->info.name.data);
    if (tensor != NULL)
        (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", tensor);
    return code;
}

graph_model *graph_model_create(void)
{
    graph_model *model = calloc(1, sizeof *model);

    if (model == NULL)
        return NULL;
    model->about.producer_name = model->about.producer_version = model->about.domain = model->about.doc = "";
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
    while (model->memory.blobs != NULL) {
        graph_blob *blob = model->memory.blobs;

        model->memory.blobs = blob->next;
        mapped_file_forget(blob->file);
        if (blob->mapped)
            (void)munmap(blob->address, blob->bytes);
        else
            free(blob->address);
        free(blob);
    }
    names_deinit(&model->symbol_table);
    names_deinit(&model->schemas.table);
    arena_deinit(&model->arena);
    free(model);
}

static inlay_status add_blob(graph_model *model, void *address, size_t bytes, mapped_file *file)
{
    graph_blob *blob = malloc(sizeof *blob);

    if (blob == NULL)
        return INLAY_OUT_OF_MEMORY;
    *blob = (graph_blob){
        .next = model->memory.blobs, .address = address, .bytes = bytes, .mapped = file != NULL, .file = file
    };
    if (file != NULL) {
        blob->next_file = model->memory.files;
        model->memory.files = blob;
    }
    model->memory.blobs = blob;
    return INLAY_OK;
}

/* A block in a new file, which has no name. NULL: the folder's file system has no such files, or the disk is full. */
static void *map_temporary(const char *folder, size_t bytes)
{
#if defined(O_TMPFILE)
    const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    void *address = MAP_FAILED;

    /* Blocks are reserved: writing to a mapped hole of a full disk would raise SIGBUS. */
    if (fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0)
        address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    return address != MAP_FAILED ? address : NULL;
#else
    (void)folder;
    (void)bytes;
    return NULL;
#endif
}

/* A large block of a model with spill_dir; NULL: it has to be in the heap. The block before it has been filled by now,
 * from weights that will not be read again soon, so all pages are released. */
static void *spill(graph_model *model, size_t bytes)
{
    void *address = map_temporary(model->memory.spill_dir, bytes);

    if (address == NULL)
        return NULL;
    graph_model_release_pages(model);
    if (add_blob(model, address, bytes, NULL) != INLAY_OK) {
        (void)munmap(address, bytes);
        return NULL;
    }
    model->memory.blobs->mapped = model->memory.blobs->spilled = true;
    return address;
}

void *graph_blob_alloc(graph_model *model, size_t bytes)
{
    enum { MIN_SPILLED = 1 << 16 };
    size_t rounded = bytes;
    void *address = model->memory.spill_dir != NULL && bytes >= MIN_SPILLED ? spill(model, bytes) : NULL;

    if (address != NULL)
        return address;

    if (!__builtin_add_overflow(rounded, (size_t)63, &rounded))
        rounded &= ~(size_t)63;
    else
        return NULL;
    address = aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (address != NULL && add_blob(model, address, bytes, NULL) != INLAY_OK) {
        free(address);
        address = NULL;
    }
    if (address != NULL)
        pages_large(address, rounded); /* a fault for each small page takes longer than filling it */
    return address;
}

inlay_status graph_blob_adopt(graph_model *model, void *block, size_t bytes)
{
    return add_blob(model, block, bytes, NULL);
}

void graph_blob_free(graph_model *model, const void *data)
{
    for (graph_blob **at = &model->memory.blobs; *at != NULL; at = &(*at)->next) {
        graph_blob *blob = *at;

        if (blob->address != data || blob->mapped)
            continue;
        *at = blob->next;
        free(blob->address);
        free(blob);
        return;
    }
}

bool graph_blob_owns(const graph_model *model, const void *data)
{
    for (const graph_blob *blob = model->memory.blobs; blob != NULL; blob = blob->next)
        if (blob->address == data && (!blob->mapped || blob->spilled))
            return true;
    return false;
}

inlay_status graph_blob_map(graph_model *model, void *address, size_t bytes, mapped_file *file)
{
    return add_blob(model, address, bytes, file);
}

inlay_status graph_files_check(const graph_model *model, inlay_diag *diag)
{
    for (; model != NULL; model = model->source.base) {
        for (const graph_blob *blob = model->memory.files; blob != NULL; blob = blob->next_file) {
            const inlay_status status = mapped_file_check(blob->file, diag);

            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

/* The mapping that contains these bytes; NULL: none. */
static const graph_blob *find_mapping(const graph_model *model, const void *data, size_t bytes)
{
    for (; model != NULL; model = model->source.base)
        for (const graph_blob *blob = model->memory.blobs; blob != NULL; blob = blob->next) {
            const uintptr_t at = (uintptr_t)data - (uintptr_t)blob->address;

            if (blob->mapped && (uintptr_t)data >= (uintptr_t)blob->address && at <= blob->bytes &&
                bytes <= blob->bytes - at)
                return blob;
        }
    return NULL;
}

const file_id *graph_blob_file(const graph_model *model, const void *data, size_t bytes, uint64_t *out_offset)
{
    const graph_blob *blob = find_mapping(model, data, bytes);

    if (blob == NULL || blob->spilled)
        return NULL;
    *out_offset = (uintptr_t)data - (uintptr_t)blob->address;
    return mapped_file_id(blob->file);
}

bool graph_blob_is_mapped(const graph_model *model, const void *data, size_t bytes)
{
    return find_mapping(model, data, bytes) != NULL;
}

void graph_blob_release_pages(const graph_model *model, const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)data + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)data + bytes) & ~(page - 1);

    if (bytes < page || from >= to)
        return;
    for (; model != NULL; model = model->source.base)
        for (const graph_blob *blob = model->memory.blobs; blob != NULL; blob = blob->next)
            if (blob->mapped && from >= (uintptr_t)blob->address && to <= (uintptr_t)blob->address + blob->bytes)
                (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void graph_model_release_pages(const graph_model *model)
{
    for (; model != NULL; model = model->source.base)
        for (const graph_blob *blob = model->memory.blobs; blob != NULL; blob = blob->next)
            if (blob->mapped)
                graph_blob_release_pages(model, blob->address, blob->bytes);
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

    INLAY_CHECK(model->symbol_count > 0 && (found == NAMES_NONE || found < model->symbol_count));
    if (found != NAMES_NONE)
        return found;
    copy = arena_string_n(&model->arena, name, bytes);
    if (copy == NULL || !ARENA_GROW(&model->arena, model->symbols, model->symbol_count) ||
        !names_add(&model->symbol_table, copy, bytes, model->symbol_count, NULL))
        return 0;
    model->symbols[model->symbol_count] = (inlay_symbol_info){ .name = { copy, bytes }, .max = INT64_MAX };
    return model->symbol_count++;
}

struct graph *graph_create(graph_model *model, struct graph *parent, const char *name)
{
    struct graph *graph = arena_alloc(&model->arena, sizeof *graph);

    if (graph == NULL)
        return NULL;
    graph->model = model;
    graph->parent = parent;
    graph->name = arena_string(&model->arena, name);
    return graph->name == NULL ? NULL : graph;
}

/* Doubles an array in the arena. The old arrays waste at most as much memory as the new one uses. */
static void *grown(graph_model *model, const void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    uint32_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *bigger = wanted > *capacity ? arena_grown(&model->arena, items, count, wanted, item_bytes) : NULL;

    if (bigger != NULL)
        *capacity = wanted;
    return bigger;
}

#define GENERATED_NAME "inlay:" /* prefix of generated value names; a number follows */

/* Prevents collisions of generated names with names of the file, which an earlier inlay run may have generated. */
static void note_name(graph_model *model, const char *name)
{
    const size_t prefix = sizeof GENERATED_NAME - 1;

    if (strncmp(name, GENERATED_NAME, prefix) == 0) {
        uint64_t number = strtoull(name + prefix, NULL, 10);

        if (number >= model->next_name && number < UINT64_MAX)
            model->next_name = number + 1;
    }
}

uint32_t graph_add_value(struct graph *graph, const char *name, size_t name_bytes)
{
    graph_model *model = graph->model;
    graph_value *value;
    char *copy;

    if (graph->value_count == graph->value_capacity) {
        graph_value *bigger =
            grown(model, graph->values, graph->value_count, &graph->value_capacity, sizeof *graph->values);

        if (bigger == NULL)
            return INLAY_NONE;
        graph->values = bigger;
    }
    if (name != NULL) {
        copy = arena_string_n(&model->arena, name, name_bytes);
        if (copy != NULL)
            note_name(model, copy);
    } else {
        copy = arena_format(&model->arena, GENERATED_NAME "%llu", (unsigned long long)model->next_name++);
        name_bytes = copy == NULL ? 0 : strlen(copy);
    }
    if (copy == NULL)
        return INLAY_NONE;
    INLAY_CHECK(graph->value_count < graph->value_capacity);
    value = &graph->values[graph->value_count];
    *value = (graph_value){ .info = { .name = { copy, name_bytes },
                                      .kind = INLAY_VALUE_TENSOR,
                                      .rank = INLAY_RANK_UNKNOWN,
                                      .producer = INLAY_NONE },
                            .declared_rank = INLAY_RANK_UNKNOWN };
    return graph->value_count++;
}

uint32_t graph_add_list_input(struct graph *graph, const char *name, const char *length, const inlay_tensor_view *view)
{
    graph_model *model = graph->model;
    const uint32_t added = graph_add_value(graph, name, strlen(name)), symbol = graph_symbol(model, length);
    uint32_t *inputs =
        arena_grown(&model->arena, graph->inputs, graph->input_count, (size_t)graph->input_count + 1, sizeof *inputs);
    inlay_dim *dims = arena_array(&model->arena, view->rank, sizeof *dims);
    const inlay_tensor_view *copy = arena_copy(&model->arena, view, sizeof *view);
    graph_value *value = added != INLAY_NONE ? &graph->values[added] : NULL;

    if (value == NULL || symbol == 0 || inputs == NULL || dims == NULL || copy == NULL)
        return INLAY_NONE;
    dims[0] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = symbol };
    for (uint32_t d = 1; d < view->rank; d++)
        dims[d] = (inlay_dim){ .value = view->dims[d], .kind = INLAY_DIM_FIXED };
    value->info.kind = INLAY_VALUE_TENSOR;
    value->info.dtype = value->declared_dtype = view->dtype;
    value->info.rank = value->declared_rank = view->rank;
    value->info.dims = value->declared_dims = dims;
    value->declared = value->has_default = true;
    value->default_value = copy;
    inputs[graph->input_count] = added;
    graph->inputs = inputs;
    graph->input_count++;
    return added;
}

uint32_t graph_find_value(const struct graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->value_count; i++)
        if (strcmp(graph->values[i].info.name.data, name) == 0)
            return i;
    return INLAY_NONE;
}

static uint32_t *none_list(struct arena *arena, uint32_t count)
{
    uint32_t *list = arena_array(arena, count, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = INLAY_NONE;
    return list;
}

inlay_status graph_append_node(struct graph *graph, graph_node *node)
{
    if (graph->node_count == graph->node_capacity) {
        graph_node **bigger =
            grown(graph->model, graph->nodes, graph->node_count, &graph->node_capacity, sizeof *graph->nodes);

        if (bigger == NULL)
            return INLAY_OUT_OF_MEMORY;
        graph->nodes = bigger;
    }
    INLAY_CHECK(graph->node_count < graph->node_capacity && node != NULL);
    graph->nodes[graph->node_count++] = node;
    return INLAY_OK;
}

graph_node *graph_add_node(struct graph *graph, const char *op_type, const char *domain, const char *name,
                           uint32_t input_count, uint32_t output_count)
{
    struct arena *arena = &graph->model->arena;
    graph_node *node = arena_alloc(arena, sizeof *node);
    const char *known_domain = domain == NULL || domain[0] == '\0' ? "ai.onnx" : domain;

    if (node == NULL)
        return NULL;
    node->info.op_type.data = arena_string(arena, op_type);
    node->info.domain.data = known_domain != domain ? known_domain : arena_string(arena, domain);
    node->info.name.data = arena_string(arena, name == NULL ? "" : name);
    node->info.inputs = none_list(arena, input_count);
    node->info.outputs = none_list(arena, output_count);
    if (node->info.op_type.data == NULL || node->info.domain.data == NULL || node->info.name.data == NULL ||
        node->info.inputs == NULL || node->info.outputs == NULL)
        return NULL;
    node->info.op_type.bytes = strlen(node->info.op_type.data);
    node->info.domain.bytes = strlen(node->info.domain.data);
    node->info.name.bytes = strlen(node->info.name.data);
    node->info.input_count = input_count;
    node->info.output_count = output_count;
    node->info.attr_stride = sizeof(inlay_attr_info);
    node->opset = graph_model_opset(graph->model, node->info.domain.data);
    node->overload = node->doc = "";
    node->made_by = graph->model->rewrite.pass;
    node->rewrite = graph->model->rewrite.number;
    return graph_append_node(graph, node) == INLAY_OK ? node : NULL;
}

inlay_status graph_set_constant(struct graph *graph, uint32_t value, inlay_dtype dtype, uint32_t rank,
                                const int64_t *dims, const void *data, uint64_t bytes)
{
    inlay_value_info *info = &graph->values[value].info;
    inlay_dim *copy = arena_array(&graph->model->arena, rank, sizeof *copy);

    INLAY_CHECK(value < graph->value_count);
    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < rank; i++)
        copy[i] = (inlay_dim){ .value = dims[i], .kind = INLAY_DIM_FIXED };
    info->kind = INLAY_VALUE_TENSOR;
    info->dtype = dtype;
    info->rank = rank;
    info->dims = copy;
    info->data = data == NULL ? copy : data; /* not NULL, which would mean that the value is not a constant */
    info->data_bytes = bytes;
    info->flags |= INLAY_VALUE_CONSTANT;
    info->producer = INLAY_NONE;
    info->content_hash = 0;
    return INLAY_OK;
}

bool graph_add_constant(struct graph *graph, const inlay_tensor_view *view, uint32_t *out_value)
{
    *out_value = graph_add_value(graph, NULL, 0);
    return *out_value != INLAY_NONE && graph_set_constant(graph, *out_value, view->dtype, view->rank, view->dims,
                                                          view->data, view->bytes) == INLAY_OK;
}

const inlay_attr_info *graph_own_attr(const graph_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->own_attr_count; i++)
        if (strcmp(node->info.attrs[i].name.data, name) == 0)
            return &node->info.attrs[i];
    return NULL;
}

bool graph_node_reads(const graph_node *node, uint32_t value)
{
    return is_listed(node->info.inputs, node->info.input_count, value) ||
           is_listed(node->captures, node->capture_count, value);
}

int64_t graph_attr_int(const graph_node *node, const char *name, int64_t otherwise)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_INT ? attribute->i : otherwise;
}

int64_t graph_attr_int_at(const graph_node *node, const char *name, uint32_t i)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_INTS && i < attribute->count ? attribute->ints[i] : 0;
}

double graph_attr_float(const graph_node *node, const char *name, double otherwise)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_FLOAT ? attribute->f : otherwise;
}

const inlay_attr_info *graph_attr(const graph_node *node, const char *name)
{
    size_t bytes = strlen(name);

    for (uint32_t i = 0; i < node->info.attr_count; i++) {
        const inlay_attr_info *attribute = &node->info.attrs[i];

        if (attribute->name.bytes == bytes && memcmp(attribute->name.data, name, bytes) == 0)
            return attribute;
    }
    return NULL;
}

const graph_body *graph_body_named(const graph_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->body_count; i++)
        if (strcmp(node->bodies[i].attr, name) == 0)
            return &node->bodies[i];
    return NULL;
}

inlay_status graph_set_attr(struct graph *graph, graph_node *node, const inlay_attr_info *attr)
{
    const inlay_attr_info *old = graph_attr(node, attr->name.data);
    uint32_t count = node->info.attr_count, at = old == NULL ? count : (uint32_t)(old - node->info.attrs);
    inlay_attr_info *list = arena_grown(&graph->model->arena, node->info.attrs, count, count + 1, sizeof *list);

    /* The list may be shared with the schema or with another node, so it is never modified. */
    if (list == NULL)
        return INLAY_OUT_OF_MEMORY;
    if (at >= node->own_attr_count) { /* new, or a default so far: move it to the end of the node's own attributes */
        list[at] = list[node->own_attr_count];
        at = node->own_attr_count++;
    }
    list[at] = *attr;
    node->info.attrs = list;
    node->info.attr_count = old == NULL ? count + 1 : count;
    return INLAY_OK;
}

static inlay_status set_named(struct graph *graph, graph_node *node, const char *name, inlay_attr_info attr)
{
    attr.name.data = arena_string(&graph->model->arena, name);
    attr.name.bytes = strlen(name);
    return attr.name.data == NULL ? INLAY_OUT_OF_MEMORY : graph_set_attr(graph, node, &attr);
}

inlay_status graph_set_attr_int(struct graph *graph, graph_node *node, const char *name, int64_t value)
{
    return set_named(graph, node, name, (inlay_attr_info){ .kind = INLAY_ATTR_INT, .i = value });
}

inlay_status graph_set_attr_ints(struct graph *graph, graph_node *node, const char *name, const int64_t *values,
                                 uint32_t count)
{
    const int64_t *copy = arena_copy(&graph->model->arena, values, count * sizeof *values);

    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    return set_named(graph, node, name, (inlay_attr_info){ .kind = INLAY_ATTR_INTS, .ints = copy, .count = count });
}

inlay_status graph_set_attr_float(struct graph *graph, graph_node *node, const char *name, double value)
{
    return set_named(graph, node, name, (inlay_attr_info){ .kind = INLAY_ATTR_FLOAT, .f = value });
}

inlay_status graph_set_attr_string(struct graph *graph, graph_node *node, const char *name, const char *value)
{
    const char *copy = arena_string(&graph->model->arena, value);

    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    return set_named(graph, node, name, (inlay_attr_info){ .kind = INLAY_ATTR_STRING, .s = { copy, strlen(value) } });
}

inlay_status graph_freeze_defaults(struct graph *graph)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        uint32_t value = graph->inputs[i];
        const inlay_tensor_view *view = graph->values[value].default_value;

        if (view == NULL) {
            graph->inputs[kept++] = value;
            continue;
        }
        if (graph_set_constant(graph, value, view->dtype, view->rank, view->dims, view->data, view->bytes) != INLAY_OK)
            return INLAY_OUT_OF_MEMORY; /* the value is unchanged and still an input */
        graph->values[value].default_value = NULL;
        graph->values[value].info.flags &= ~(uint32_t)INLAY_VALUE_GRAPH_INPUT;
    }
    graph->input_count = kept;
    return INLAY_OK;
}

bool graph_node_is_host(const struct graph *graph, const graph_node *node)
{
    if (node->body_count > 0 || (node->row != NULL && (node->row->flags & OP_HOST) != 0))
        return true;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE && graph->values[node->info.inputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && graph->values[node->info.outputs[i]].info.kind != INLAY_VALUE_TENSOR)
            return true;
    return false;
}

/* Dropout trains before version 7 unless is_test is set, and from version 12 on if input 2 says so. */
static bool may_train(const struct graph *graph, const graph_node *node)
{
    const uint32_t mode = node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    const inlay_value_info *info = mode != INLAY_NONE ? &graph->values[mode].info : NULL;

    if (node->info.since_version < 7)
        return graph_attr_int(node, "is_test", 0) == 0;
    return info != NULL &&
           (!graph_is_constant(graph, mode) || info->data_bytes != 1 || *(const uint8_t *)info->data != 0);
}

bool graph_node_is_random(const struct graph *graph, const graph_node *node)
{
    if (node->custom != NULL)
        return (node->custom->flags & INLAY_OPERATOR_RANDOM) != 0;
    if (node->row == NULL || (node->row->flags & OP_RANDOM) == 0)
        return node->row == NULL;
    return strcmp(node->info.op_type.data, "Dropout") != 0 || may_train(graph, node);
}

bool graph_node_matches(const char *pattern, const inlay_node_info *node)
{
    if (strncmp(pattern, "op:", 3) == 0)
        return fnmatch(pattern + 3, node->op_type.data, 0) == 0;
    return fnmatch(pattern, node->name.data, 0) == 0 || strcmp(pattern, node->name.data) == 0;
}

bool graph_has_sizes(const inlay_value_info *info)
{
    if (info->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < info->rank; d++)
        if (info->dims[d].kind != INLAY_DIM_FIXED)
            return false;
    return true;
}

bool graph_same_sizes(const inlay_value_info *a, const inlay_value_info *b)
{
    if (!graph_has_sizes(a) || !graph_has_sizes(b) || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].value != b->dims[d].value)
            return false;
    return true;
}

bool graph_same_dims(const inlay_dim *a, const inlay_dim *b, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (a[i].kind != b[i].kind || a[i].value != b[i].value || a[i].symbol != b[i].symbol)
            return false;
    return true;
}

int64_t graph_constant_count(const inlay_value_info *info)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < info->rank; d++)
        count *= info->dims[d].value;
    return count;
}

/* The axis of an input that a name such as "x:0" or "batch" means; INLAY_NONE: none. */
static uint32_t axis_of(const inlay_value_info *input, bool first, const char *name, size_t bytes)
{
    uint32_t axis = 0;

    if (first && bytes == strlen("batch") && memcmp(name, "batch", bytes) == 0)
        return 0;
    if (bytes < input->name.bytes + 2 || memcmp(name, input->name.data, input->name.bytes) != 0 ||
        name[input->name.bytes] != ':')
        return INLAY_NONE;
    for (size_t i = input->name.bytes + 1; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9' || axis > INLAY_MAX_RANK)
            return INLAY_NONE;
        axis = axis * 10 + (uint32_t)(name[i] - '0');
    }
    return axis;
}

uint32_t graph_find_dim(const graph_model *model, const char *name, size_t bytes)
{
    for (uint32_t symbol = 1; symbol < model->symbol_count; symbol++)
        if (model->symbols[symbol].name.bytes == bytes && memcmp(model->symbols[symbol].name.data, name, bytes) == 0)
            return symbol;
    for (uint32_t i = 0; i < model->main->input_count; i++) {
        const inlay_value_info *input = &model->main->values[model->main->inputs[i]].info;
        const uint32_t axis = axis_of(input, i == 0, name, bytes);

        if (input->rank != INLAY_RANK_UNKNOWN && axis < input->rank && input->dims[axis].kind == INLAY_DIM_SYMBOLIC)
            return input->dims[axis].symbol;
    }
    return 0;
}

static const char *nth_symbol(const void *model, uint32_t i)
{
    return ((const graph_model *)model)->symbols[i + 1].name.data;
}

static const char *nth_input(const void *user, uint32_t i)
{
    const graph_model *model = user;

    return model->main->values[model->main->inputs[i]].info.name.data;
}

/* The message for INPUT:AXIS: there is no such input, it has fewer axes, or the axis has a fixed size. */
static inlay_status no_axis(const graph_model *model, const char *place, const char *name, inlay_diag *diag)
{
    const char *colon = strrchr(name, ':');
    char input[64], hint[NEAREST_HINT_BYTES];

    for (uint32_t i = 0; i < model->main->input_count; i++) {
        const inlay_value_info *info = &model->main->values[model->main->inputs[i]].info;
        const uint32_t axis = axis_of(info, false, name, strlen(name));

        if (axis == INLAY_NONE || info->rank == INLAY_RANK_UNKNOWN)
            continue;
        if (axis >= info->rank)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: input '%.100s' has %u axes, counted from 0", place,
                              info->name.data, info->rank);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: axis %u of input '%.100s' has the fixed size %lld", place,
                          axis, info->name.data, (long long)info->dims[axis].value);
    }
    (void)snprintf(input, sizeof input, "%.*s", (int)(colon - name), name);
    nearest_hint(hint, "; inlay inspect lists its inputs", input, nth_input, model, model->main->input_count);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the model has no input '%s'%s", place, input, hint);
}

inlay_status graph_no_dim(const graph_model *model, const char *place, const char *name, size_t bytes, inlay_diag *diag)
{
    const uint32_t count = model->symbol_count > 1 ? model->symbol_count - 1 : 0;
    char hint[NEAREST_HINT_BYTES], names[NEAREST_HINT_BYTES] = "; all its dimensions are fixed", wanted[64];
    size_t used = 0;

    (void)snprintf(wanted, sizeof wanted, "%.*s", bytes < sizeof wanted ? (int)bytes : (int)sizeof wanted - 1, name);
    if (strrchr(wanted, ':') != NULL && strspn(strrchr(wanted, ':') + 1, "0123456789") > 0)
        return no_axis(model, place, wanted, diag);
    for (uint32_t i = 0; i < count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", i == 0 ? "; it has " : ", ",
                                 nth_symbol(model, i));
    if (used >= sizeof names) /* too many to list */
        (void)snprintf(names, sizeof names, "; inlay inspect lists its dimensions");
    nearest_hint(hint, names, wanted, nth_symbol, model, count);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the model has no dimension named '%s'%s", place, wanted, hint);
}
