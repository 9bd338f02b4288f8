/* graph/functions.c - replaces calls of model-local functions by their bodies.
 *
 * A call becomes a copy of the function's nodes. Formal inputs and outputs become the actual ones, other values get the
 * name "<call>/<value>". Attributes that refer to attributes of the function get the value of the call or the
 * function's default; otherwise they are omitted (ONNX IR, "Functions"). */
#include "graph/graph.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CALL_DEPTH = 128,       /* nested calls; protects the C stack */
    MAX_INLINED_NODES = 1000000 /* limits exponential growth: f1 calls f2 twice, f2 calls f3 twice, ... */
};
static const size_t MAX_INLINED_BYTES = (size_t)1 << 30;
static const uint32_t UNSET = INLAY_NONE - 1; /* not yet mapped to a value of the calling graph */

struct inliner {
    graph_model *model;
    inlay_diag *diag;
    names_table by_name; /* function names; most nodes call no function, so they need no key */
    names_table by_key;  /* write_key() -> function */
    struct arena keys;
    char *key; /* buffer for the key that is looked up */
    size_t key_bytes;
    uint32_t node_count;
    size_t arena_limit; /* total_bytes that the model's arena may reach */
    const graph_function *active[MAX_CALL_DEPTH];
    uint32_t depth;
};

/* A call that is being expanded into graph. */
struct expansion {
    struct inliner *in;
    struct graph *graph;
    names_table *taken; /* names of the graph's values */
    const graph_node *call;
    const graph_function *fn;
    uint32_t *map; /* [values of fn's body] value of graph, INLAY_NONE = omitted input, or UNSET */
};

static inlay_status inline_graph(struct inliner *in, struct graph *graph);
static inlay_status expand(struct inliner *in, struct graph *graph, names_table *taken, const graph_node *call,
                           const graph_function *fn);

static inlay_status no_memory_in(const struct inliner *in, const struct graph *graph)
{
    return graph_fail(graph, NULL, NULL, INLAY_OUT_OF_MEMORY, in->diag, "out of memory while inlining functions");
}

/* Writes the key of a function: domain, name and overload. */
static const char *write_key(struct inliner *in, const char *domain, const char *name, const char *overload)
{
    size_t bytes = strlen(domain) + strlen(name) + strlen(overload) + 3;

    if (bytes > in->key_bytes) {
        in->key = arena_alloc(&in->keys, 2 * bytes);
        in->key_bytes = in->key == NULL ? 0 : 2 * bytes;
    }
    if (in->key != NULL)
        (void)snprintf(in->key, bytes, "%s\1%s\1%s", domain, name, overload);
    return in->key;
}

static inlay_status index_functions(struct inliner *in)
{
    const graph_model *model = in->model;

    for (uint32_t i = 0; i < model->function_count; i++) {
        const graph_function *fn = &model->functions[i];
        const char *key = write_key(in, fn->domain, fn->name, fn->overload);

        key = key == NULL ? NULL : arena_string(&in->keys, key);
        if (key == NULL || !names_add(&in->by_name, fn->name, strlen(fn->name), i, NULL) ||
            !names_add(&in->by_key, key, strlen(key), i, NULL))
            return no_memory_in(in, model->main);
    }
    return INLAY_OK;
}

/* The function that the node calls, in *out; NULL if it calls none. */
static inlay_status find_callee(struct inliner *in, const graph_node *node, const graph_function **out)
{
    const char *key;
    uint32_t i;

    *out = NULL;
    if (names_find(&in->by_name, node->info.op_type.data, (size_t)node->info.op_type.bytes) == NAMES_NONE)
        return INLAY_OK;
    key = write_key(in, node->info.domain.data, node->info.op_type.data, node->overload);
    if (key == NULL)
        return no_memory_in(in, in->model->main);
    i = names_find(&in->by_key, key, strlen(key));
    *out = i == NAMES_NONE ? NULL : &in->model->functions[i];
    return INLAY_OK;
}

/* Limits the memory of inlining: a small file with nested calls can create many copies of long names. */
static inlay_status check_budget(const struct inliner *in, const struct graph *graph, const graph_function *fn)
{
    if (in->model->arena.total_bytes <= in->arena_limit)
        return INLAY_OK;
    return graph_fail(graph, NULL, NULL, INLAY_LIMIT_EXCEEDED, in->diag,
                      "inlining function '%.64s' takes more than %zu MiB", fn->name, MAX_INLINED_BYTES >> 20);
}

/* *out = the value of the calling graph for a value of the function's body; adds one if necessary. */
static inlay_status map_value(struct expansion *expansion, uint32_t value, uint32_t *out)
{
    const graph_value *from;
    struct arena *arena = &expansion->graph->model->arena;
    const char *call = expansion->call->info.name.data, *name;
    uint32_t present = INLAY_NONE, added;

    *out = value;
    if (value == INLAY_NONE || expansion->map[value] != UNSET) {
        *out = value == INLAY_NONE ? INLAY_NONE : expansion->map[value];
        return INLAY_OK;
    }
    if (check_budget(expansion->in, expansion->graph, expansion->fn) != INLAY_OK)
        return INLAY_LIMIT_EXCEEDED;
    INLAY_CHECK(value < expansion->fn->body->value_count);
    from = &expansion->fn->body->values[value];
    name = arena_format(arena, "%s/%s", call, from->info.name.data);
    for (uint32_t number = 1; name != NULL; number++) {
        if (!names_add(expansion->taken, name, strlen(name), expansion->graph->value_count, &present))
            return no_memory_in(expansion->in, expansion->graph);
        if (present == NAMES_NONE)
            break;
        name = arena_format(arena, "%s/%s#%u", call, from->info.name.data, number);
    }
    added = name == NULL ? INLAY_NONE : graph_add_value(expansion->graph, name, strlen(name));
    if (added == INLAY_NONE)
        return no_memory_in(expansion->in, expansion->graph);
    inlay_str copied_name = expansion->graph->values[added].info.name;
    expansion->graph->values[added] = *from;
    expansion->graph->values[added].info.name = copied_name;
    expansion->graph->values[added].info.flags &= INLAY_VALUE_CONSTANT;
    expansion->map[value] = *out = added;
    return INLAY_OK;
}

static inlay_status map_list(struct expansion *expansion, const uint32_t *list, uint32_t count, const uint32_t **out)
{
    uint32_t *mapped = arena_array(&expansion->graph->model->arena, count, sizeof *mapped);

    *out = mapped;
    if (mapped == NULL)
        return no_memory_in(expansion->in, expansion->graph);
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status = map_value(expansion, list[i], &mapped[i]);

        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static const inlay_attr_info *find_default(const graph_function *fn, const char *name)
{
    for (uint32_t i = 0; i < fn->default_count; i++)
        if (strcmp(fn->defaults[i].name.data, name) == 0)
            return &fn->defaults[i];
    return NULL;
}

/* Resolves the attributes that refer to attributes of the function. */
static inlay_status resolve_refs(const struct expansion *expansion, struct graph *graph, graph_node *node)
{
    uint32_t count = node->ref_count;

    node->ref_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const graph_attr_ref *ref = &node->refs[i];
        const inlay_attr_info *given = graph_attr(expansion->call, ref->from);
        inlay_attr_info attr;

        if (given == NULL)
            given = find_default(expansion->fn, ref->from);
        if (given == NULL && graph_body_named(expansion->call, ref->from) != NULL)
            return graph_fail(expansion->graph, expansion->call, NULL, INLAY_UNSUPPORTED, expansion->in->diag,
                              "passes graph attribute '%.64s' to a function; inline the function before exporting",
                              ref->from);
        if (given == NULL)
            continue;
        if (ref->kind != 0 && given->kind != ref->kind)
            return graph_fail(expansion->graph, expansion->call, NULL, INLAY_INVALID_MODEL, expansion->in->diag,
                              "attribute '%.64s' has kind %u, but the function uses it as kind %u", ref->from,
                              given->kind, ref->kind);
        attr = *given;
        attr.name = (inlay_str){ ref->name, strlen(ref->name) };
        if (graph_set_attr(graph, node, &attr) != INLAY_OK)
            return no_memory_in(expansion->in, expansion->graph);
    }
    return INLAY_OK;
}

/* Removes a value, an optional input that the call omits, from a body. */
static inlay_status omit_value(const struct expansion *expansion, struct graph *graph, uint32_t value)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        uint32_t *inputs = (uint32_t *)(uintptr_t)node->info.inputs; /* of the copied node */

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (inputs[k] == value)
                inputs[k] = INLAY_NONE;
        for (uint32_t b = 0; b < node->body_count; b++) {
            graph_body *body = &node->bodies[b];

            for (uint32_t c = 0; c < body->capture_count; c++) {
                if (body->capture_outer[c] != value)
                    continue;
                inlay_status status = omit_value(expansion, body->graph, body->capture_inner[c]);
                if (status != INLAY_OK)
                    return status;
                body->capture_count--;
                body->capture_outer[c] = body->capture_outer[body->capture_count];
                body->capture_inner[c] = body->capture_inner[body->capture_count];
                c--;
            }
        }
    }
    for (uint32_t k = 0; k < graph->output_count; k++)
        if (graph->outputs[k] == value)
            return graph_fail(graph, expansion->call, NULL, INLAY_INVALID_MODEL, expansion->in->diag,
                              "output %u of a body in function '%.64s' is input '%.64s', which the call omits", k,
                              expansion->fn->name, graph->values[value].info.name.data);
    return INLAY_OK;
}

static struct graph *copy_graph(const struct expansion *expansion, const struct graph *from, struct graph *parent,
                                inlay_status *status);

/* Copies the bodies of a node; their captures still refer to the values of the original graph. */
static inlay_status copy_bodies(const struct expansion *expansion, struct graph *parent, graph_node *node)
{
    struct arena *arena = &parent->model->arena;
    graph_body *bodies = arena_copy(arena, node->bodies, node->body_count * sizeof *bodies);
    inlay_status status = INLAY_OK;

    if (bodies == NULL)
        return no_memory_in(expansion->in, parent);
    for (uint32_t b = 0; b < node->body_count; b++) {
        size_t bytes = bodies[b].capture_count * sizeof(uint32_t);

        bodies[b].capture_outer = arena_copy(arena, bodies[b].capture_outer, bytes);
        bodies[b].capture_inner = arena_copy(arena, bodies[b].capture_inner, bytes);
        if (bodies[b].capture_outer == NULL || bodies[b].capture_inner == NULL)
            return no_memory_in(expansion->in, parent);
        bodies[b].graph = copy_graph(expansion, bodies[b].graph, parent, &status);
        if (bodies[b].graph == NULL)
            return status;
    }
    node->bodies = bodies;
    return INLAY_OK;
}

/* Copies a node with its inputs, outputs and attributes. Counts toward MAX_INLINED_NODES. */
static graph_node *copy_node(const struct expansion *expansion, const graph_node *from, struct graph *parent,
                             inlay_status *status)
{
    struct arena *arena = &parent->model->arena;
    graph_node *node = arena_copy(arena, from, sizeof *from);

    *status = INLAY_OK;
    if (++expansion->in->node_count > MAX_INLINED_NODES) {
        *status =
            graph_fail(parent, NULL, NULL, INLAY_LIMIT_EXCEEDED, expansion->in->diag,
                       "inlining function '%.64s' makes more than %d nodes", expansion->fn->name, MAX_INLINED_NODES);
        return NULL;
    }
    if (node != NULL) {
        node->info.inputs = arena_copy(arena, from->info.inputs, from->info.input_count * sizeof(uint32_t));
        node->info.outputs = arena_copy(arena, from->info.outputs, from->info.output_count * sizeof(uint32_t));
    }
    if (node == NULL || node->info.inputs == NULL || node->info.outputs == NULL) {
        *status = no_memory_in(expansion->in, parent);
        return NULL;
    }
    if (node->body_count > 0)
        *status = copy_bodies(expansion, parent, node);
    if (*status == INLAY_OK)
        *status = resolve_refs(expansion, parent, node);
    return *status == INLAY_OK ? node : NULL;
}

static struct graph *copy_graph(const struct expansion *expansion, const struct graph *from, struct graph *parent,
                                inlay_status *status)
{
    struct arena *arena = &parent->model->arena;
    struct graph *graph = arena_copy(arena, from, sizeof *from);

    *status = graph == NULL ? no_memory_in(expansion->in, parent) : check_budget(expansion->in, parent, expansion->fn);
    if (*status != INLAY_OK)
        return NULL;
    graph->parent = parent;
    graph->value_capacity = graph->value_count;
    graph->node_capacity = graph->node_count;
    graph->values = arena_copy(arena, from->values, from->value_count * sizeof *from->values);
    graph->nodes = arena_copy(arena, from->nodes, from->node_count * sizeof *from->nodes);
    graph->inputs = arena_copy(arena, from->inputs, from->input_count * sizeof(uint32_t));
    graph->outputs = arena_copy(arena, from->outputs, from->output_count * sizeof(uint32_t));
    if (graph->values == NULL || graph->nodes == NULL || graph->inputs == NULL || graph->outputs == NULL) {
        *status = no_memory_in(expansion->in, parent);
        return NULL;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i] = copy_node(expansion, from->nodes[i], graph, status);
        if (graph->nodes[i] == NULL)
            return NULL;
    }
    return graph;
}

static inlay_status append(const struct inliner *in, struct graph *graph, graph_node *node)
{
    return graph_append_node(graph, node) == INLAY_OK ? INLAY_OK : no_memory_in(in, graph);
}

/* Maps the inputs, outputs and captures of a copied node to values of the calling graph. */
static inlay_status adopt_node(struct expansion *expansion, graph_node *node)
{
    inlay_status status = INLAY_OK;

    node->place = expansion->call->place;
    node->info.name.data =
        arena_format(&expansion->graph->model->arena, "%s/%s", expansion->call->info.name.data, node->info.name.data);
    if (node->info.name.data == NULL)
        return no_memory_in(expansion->in, expansion->graph);
    node->info.name.bytes = strlen(node->info.name.data);
    INLAY_TRY(map_list(expansion, node->info.inputs, node->info.input_count, &node->info.inputs));
    INLAY_TRY(map_list(expansion, node->info.outputs, node->info.output_count, &node->info.outputs));
    for (uint32_t b = 0; b < node->body_count; b++) {
        graph_body *body = &node->bodies[b];
        uint32_t kept = 0;

        body->graph->parent = expansion->graph;
        for (uint32_t c = 0; c < body->capture_count; c++) {
            uint32_t inner = body->capture_inner[c], outer;

            INLAY_TRY(map_value(expansion, body->capture_outer[c], &outer));
            if (outer == INLAY_NONE) {
                INLAY_TRY(omit_value(expansion, body->graph, inner));
                continue;
            }
            body->capture_outer[kept] = outer;
            body->capture_inner[kept++] = inner;
        }
        body->capture_count = kept;
        body->graph->captured = body->capture_inner;
        body->graph->captured_count = kept;
        INLAY_TRY(inline_graph(expansion->in, body->graph));
    }
done:
    return status;
}

/* Adds an Identity for a formal output that is also a formal input, a constant or another output. */
static inlay_status add_identity(struct expansion *expansion, uint32_t from, uint32_t to)
{
    graph_node *node = graph_add_node(expansion->graph, "Identity", "ai.onnx", "", 1, 1);
    uint32_t *inputs = node == NULL ? NULL : arena_copy(&expansion->graph->model->arena, &from, sizeof from);
    uint32_t *outputs = node == NULL ? NULL : arena_copy(&expansion->graph->model->arena, &to, sizeof to);

    if (inputs == NULL || outputs == NULL)
        return no_memory_in(expansion->in, expansion->graph);
    if (from == INLAY_NONE)
        return graph_fail(expansion->graph, expansion->call, NULL, INLAY_INVALID_MODEL, expansion->in->diag,
                          "an output of function '%.64s' is an input that the call omits", expansion->fn->name);
    node->info.inputs = inputs;
    node->info.outputs = outputs;
    node->opset = node->opset == 0 ? 1 : node->opset;
    return INLAY_OK;
}

static inlay_status bind_formals(struct expansion *expansion)
{
    const struct graph *body = expansion->fn->body;
    const inlay_node_info *call = &expansion->call->info;

    if (call->input_count > body->input_count || call->output_count > body->output_count)
        return graph_fail(expansion->graph, expansion->call, NULL, INLAY_INVALID_MODEL, expansion->in->diag,
                          "has %u inputs and %u outputs, but function '%.64s' takes %u and gives %u", call->input_count,
                          call->output_count, expansion->fn->name, body->input_count, body->output_count);
    for (uint32_t value = 0; value < body->value_count; value++)
        expansion->map[value] = UNSET;
    for (uint32_t i = 0; i < body->input_count; i++)
        expansion->map[body->inputs[i]] = i < call->input_count ? call->inputs[i] : INLAY_NONE;
    for (uint32_t output = 0; output < call->output_count; output++) {
        uint32_t value = body->outputs[output];

        if (call->outputs[output] != INLAY_NONE && expansion->map[value] == UNSET &&
            (body->values[value].info.flags & INLAY_VALUE_CONSTANT) == 0)
            expansion->map[value] = call->outputs[output];
    }
    return INLAY_OK;
}

static inlay_status expand_body(struct expansion *expansion)
{
    const struct graph *body = expansion->fn->body;
    inlay_status status = bind_formals(expansion);

    for (uint32_t i = 0; status == INLAY_OK && i < body->node_count; i++) {
        graph_node *node = copy_node(expansion, body->nodes[i], expansion->graph, &status);
        const graph_function *fn;

        if (node == NULL)
            break;
        status = adopt_node(expansion, node);
        if (status != INLAY_OK)
            break;
        status = find_callee(expansion->in, node, &fn);
        if (status == INLAY_OK)
            status = fn == NULL ? append(expansion->in, expansion->graph, node)
                                : expand(expansion->in, expansion->graph, expansion->taken, node, fn);
    }
    for (uint32_t output = 0; status == INLAY_OK && output < expansion->call->info.output_count; output++) {
        uint32_t to = expansion->call->info.outputs[output], from;

        if (to == INLAY_NONE)
            continue;
        status = map_value(expansion, body->outputs[output], &from);
        if (status == INLAY_OK && from != to)
            status = add_identity(expansion, from, to);
    }
    return status;
}

static inlay_status expand(struct inliner *in, struct graph *graph, names_table *taken, const graph_node *call,
                           const graph_function *fn)
{
    struct expansion expansion = { .in = in, .graph = graph, .taken = taken, .call = call, .fn = fn };
    inlay_status status;

    for (uint32_t i = 0; i < in->depth; i++)
        if (in->active[i] == fn)
            return graph_fail(graph, call, NULL, INLAY_INVALID_MODEL, in->diag,
                              "function '%.64s' calls itself; ONNX functions cannot recurse", fn->name);
    if (in->depth == MAX_CALL_DEPTH)
        return graph_fail(graph, call, NULL, INLAY_LIMIT_EXCEEDED, in->diag,
                          "functions call functions more than %d deep", MAX_CALL_DEPTH);
    expansion.map = calloc((size_t)fn->body->value_count + 1, sizeof *expansion.map);
    if (expansion.map == NULL)
        return no_memory_in(in, graph);
    in->active[in->depth++] = fn;
    status = expand_body(&expansion);
    INLAY_CHECK(in->depth > 0 && in->active[in->depth - 1] == fn);
    in->depth--;
    free(expansion.map);
    return status;
}

static inlay_status has_calls(struct inliner *in, const struct graph *graph, bool *out)
{
    const graph_function *fn = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->node_count && fn == NULL && status == INLAY_OK; i++)
        status = find_callee(in, graph->nodes[i], &fn);
    *out = fn != NULL;
    return status;
}

static inlay_status inline_graph(struct inliner *in, struct graph *graph)
{
    inlay_status status = INLAY_OK;
    graph_node **old = graph->nodes;
    uint32_t old_count = graph->node_count;
    names_table taken = { 0 };
    bool calls;

    for (uint32_t i = 0; i < old_count; i++)
        for (uint32_t b = 0; b < old[i]->body_count; b++)
            INLAY_TRY(inline_graph(in, old[i]->bodies[b].graph));
    INLAY_TRY(has_calls(in, graph, &calls));
    if (!calls)
        goto done;
    for (uint32_t value = 0; value < graph->value_count; value++) {
        if (!names_add(&taken, graph->values[value].info.name.data, (size_t)graph->values[value].info.name.bytes, value,
                       NULL)) {
            status = no_memory_in(in, graph);
            goto done;
        }
    }
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    for (uint32_t i = 0; i < old_count; i++) {
        const graph_function *fn;

        INLAY_TRY(find_callee(in, old[i], &fn));
        INLAY_TRY(fn == NULL ? append(in, graph, old[i]) : expand(in, graph, &taken, old[i], fn));
    }
done:
    names_deinit(&taken);
    return status;
}

inlay_status graph_inline_functions(graph_model *model, inlay_diag *diag)
{
    struct inliner in = { .model = model, .diag = diag, .arena_limit = model->arena.total_bytes + MAX_INLINED_BYTES };
    inlay_status status = INLAY_OK;

    if (model->function_count == 0)
        return INLAY_OK;
    INLAY_TRY(index_functions(&in));
    INLAY_TRY(inline_graph(&in, model->main));
    INLAY_TRY(graph_finish(model->main, diag));
    model->function_count = 0;
done:
    names_deinit(&in.by_name);
    names_deinit(&in.by_key);
    arena_deinit(&in.keys);
    return status;
}
