/* graph/functions.c - replaces calls of model-local functions by their bodies.
 *
 * A call becomes a copy of the function's nodes: formal inputs and outputs stand for the actual ones, other values get
 * names "<call>/<value>", and attributes that refer to the function's are filled in from the call, else from the
 * function's defaults, else left out (ONNX IR, "Functions"). */
#include "graph/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CALL_DEPTH = 128,       /* functions that call functions; the C stack is what it protects */
    MAX_INLINED_NODES = 1000000 /* f1 calls f2 twice, f2 calls f3 twice, ... */
};
static const size_t MAX_INLINED_BYTES = (size_t)1 << 30;
static const uint32_t UNSET = INLAY_NONE - 1; /* no value of the calling graph yet */

struct inliner {
    graph_model *model;
    inlay_diag *diag;
    names_table by_name; /* function names: most nodes call none, and need no key */
    names_table by_key;  /* key_of() -> function */
    struct arena keys;
    char *key; /* room for the key that is looked up */
    size_t key_bytes;
    uint32_t node_count;
    size_t arena_limit; /* total_bytes that the model's arena may reach */
    const graph_function *active[MAX_CALL_DEPTH];
    uint32_t depth;
};

/* One call being expanded into g. */
struct expansion {
    struct inliner *in;
    struct graph *g;
    names_table *taken; /* names of g's values */
    const graph_node *call;
    const graph_function *fn;
    uint32_t *map; /* [values of fn's body] value of g, INLAY_NONE = omitted input, UNSET */
};

static inlay_status inline_graph(struct inliner *in, struct graph *g);
static inlay_status expand(struct inliner *in, struct graph *g, names_table *taken, const graph_node *call,
                           const graph_function *fn);

static inlay_status no_memory(const struct inliner *in, const struct graph *g)
{
    return graph_fail(g, NULL, NULL, INLAY_OUT_OF_MEMORY, in->diag, "out of memory while inlining functions");
}

/* What a call names, as one text: domain, name and overload. */
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
            return no_memory(in, model->main);
    }
    return INLAY_OK;
}

/* The function that the node calls, in *out; NULL if it calls none. */
static inlay_status called(struct inliner *in, const graph_node *n, const graph_function **out)
{
    const char *key;
    uint32_t i;

    *out = NULL;
    if (names_find(&in->by_name, n->info.op_type.data, (size_t)n->info.op_type.bytes) == NAMES_NONE)
        return INLAY_OK;
    key = write_key(in, n->info.domain.data, n->info.op_type.data, n->overload);
    if (key == NULL)
        return no_memory(in, in->model->main);
    i = names_find(&in->by_key, key, strlen(key));
    *out = i == NAMES_NONE ? NULL : &in->model->functions[i];
    return INLAY_OK;
}

/* Long names in a small file can grow as well as nodes can. */
static inlay_status check_budget(const struct inliner *in, const struct graph *g, const graph_function *fn)
{
    if (in->model->arena.total_bytes <= in->arena_limit)
        return INLAY_OK;
    return graph_fail(g, NULL, NULL, INLAY_LIMIT_EXCEEDED, in->diag,
                      "inlining function '%.64s' takes more than %zu MiB", fn->name, MAX_INLINED_BYTES >> 20);
}

/* ------------------------------------------------------------------ copies */

/* A value of g for value v of the function's body. */
static inlay_status map_value(struct expansion *e, uint32_t v, uint32_t *out)
{
    const graph_value *from;
    struct arena *a = &e->g->model->arena;
    const char *call = e->call->info.name.data, *name;
    uint32_t present = INLAY_NONE, made;

    *out = v;
    if (v == INLAY_NONE || e->map[v] != UNSET) {
        *out = v == INLAY_NONE ? INLAY_NONE : e->map[v];
        return INLAY_OK;
    }
    if (check_budget(e->in, e->g, e->fn) != INLAY_OK)
        return INLAY_LIMIT_EXCEEDED;
    from = &e->fn->body->values[v];
    name = arena_format(a, "%s/%s", call, from->info.name.data);
    for (uint32_t number = 1; name != NULL; number++) {
        if (!names_add(e->taken, name, strlen(name), e->g->value_count, &present))
            return no_memory(e->in, e->g);
        if (present == NAMES_NONE)
            break;
        name = arena_format(a, "%s/%s#%u", call, from->info.name.data, number);
    }
    made = name == NULL ? INLAY_NONE : graph_add_value(e->g, name, strlen(name));
    if (made == INLAY_NONE)
        return no_memory(e->in, e->g);
    inlay_str copied_name = e->g->values[made].info.name;
    e->g->values[made] = *from;
    e->g->values[made].info.name = copied_name;
    e->g->values[made].info.flags &= INLAY_VALUE_CONSTANT;
    e->map[v] = *out = made;
    return INLAY_OK;
}

static inlay_status map_list(struct expansion *e, const uint32_t *list, uint32_t count, const uint32_t **out)
{
    uint32_t *mapped = arena_array(&e->g->model->arena, count, sizeof *mapped);

    *out = mapped;
    if (mapped == NULL)
        return no_memory(e->in, e->g);
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status = map_value(e, list[i], &mapped[i]);

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

/* Fills in the attributes that refer to the function's. */
static inlay_status resolve_refs(const struct expansion *e, struct graph *g, graph_node *n)
{
    uint32_t count = n->ref_count;

    n->ref_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const graph_attr_ref *ref = &n->refs[i];
        const inlay_attr_info *given = graph_attr(e->call, ref->from);
        inlay_attr_info attr;

        if (given == NULL)
            given = find_default(e->fn, ref->from);
        if (given == NULL && graph_body_named(e->call, ref->from) != NULL)
            return graph_fail(e->g, e->call, NULL, INLAY_UNSUPPORTED, e->in->diag,
                              "passes graph attribute '%.64s' to a function; inline the function before exporting",
                              ref->from);
        if (given == NULL)
            continue;
        if (ref->kind != 0 && given->kind != ref->kind)
            return graph_fail(e->g, e->call, NULL, INLAY_INVALID_MODEL, e->in->diag,
                              "attribute '%.64s' is of kind %u, but the function uses it as kind %u", ref->from,
                              given->kind, ref->kind);
        attr = *given;
        attr.name = (inlay_str){ ref->name, strlen(ref->name) };
        if (graph_set_attr(g, n, &attr) != INLAY_OK)
            return no_memory(e->in, e->g);
    }
    return INLAY_OK;
}

/* Takes value v, an optional input that the call omits, out of a body. */
static inlay_status omit_value(const struct expansion *e, struct graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        uint32_t *inputs = (uint32_t *)(uintptr_t)n->info.inputs; /* of our copy */

        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (inputs[k] == v)
                inputs[k] = INLAY_NONE;
        for (uint32_t b = 0; b < n->body_count; b++) {
            graph_body *body = &n->bodies[b];

            for (uint32_t c = 0; c < body->capture_count; c++) {
                if (body->capture_outer[c] != v)
                    continue;
                inlay_status status = omit_value(e, body->graph, body->capture_inner[c]);
                if (status != INLAY_OK)
                    return status;
                body->capture_count--;
                body->capture_outer[c] = body->capture_outer[body->capture_count];
                body->capture_inner[c] = body->capture_inner[body->capture_count];
                c--;
            }
        }
    }
    for (uint32_t k = 0; k < g->output_count; k++)
        if (g->outputs[k] == v)
            return graph_fail(g, e->call, NULL, INLAY_INVALID_MODEL, e->in->diag,
                              "output %u of a body in function '%.64s' is input '%.64s', which the call omits", k,
                              e->fn->name, g->values[v].info.name.data);
    return INLAY_OK;
}

static struct graph *copy_graph(const struct expansion *e, const struct graph *from, struct graph *parent,
                                inlay_status *status);

/* Copies the bodies of a node; their captures still speak of the original's values. */
static inlay_status copy_bodies(const struct expansion *e, struct graph *parent, graph_node *n)
{
    struct arena *a = &parent->model->arena;
    graph_body *bodies = arena_copy(a, n->bodies, n->body_count * sizeof *bodies);
    inlay_status status = INLAY_OK;

    if (bodies == NULL)
        return no_memory(e->in, parent);
    for (uint32_t b = 0; b < n->body_count; b++) {
        size_t bytes = bodies[b].capture_count * sizeof(uint32_t);

        bodies[b].capture_outer = arena_copy(a, bodies[b].capture_outer, bytes);
        bodies[b].capture_inner = arena_copy(a, bodies[b].capture_inner, bytes);
        if (bodies[b].capture_outer == NULL || bodies[b].capture_inner == NULL)
            return no_memory(e->in, parent);
        bodies[b].graph = copy_graph(e, bodies[b].graph, parent, &status);
        if (bodies[b].graph == NULL)
            return status;
    }
    n->bodies = bodies;
    return INLAY_OK;
}

/* A node of its own with the same inputs, outputs and attributes; counts toward the limit. */
static graph_node *copy_node(const struct expansion *e, const graph_node *from, struct graph *parent,
                             inlay_status *status)
{
    struct arena *a = &parent->model->arena;
    graph_node *n = arena_copy(a, from, sizeof *from);

    *status = INLAY_OK;
    if (++e->in->node_count > MAX_INLINED_NODES) {
        *status = graph_fail(parent, NULL, NULL, INLAY_LIMIT_EXCEEDED, e->in->diag,
                             "inlining function '%.64s' makes more than %d nodes", e->fn->name, MAX_INLINED_NODES);
        return NULL;
    }
    if (n != NULL) {
        n->info.inputs = arena_copy(a, from->info.inputs, from->info.input_count * sizeof(uint32_t));
        n->info.outputs = arena_copy(a, from->info.outputs, from->info.output_count * sizeof(uint32_t));
    }
    if (n == NULL || n->info.inputs == NULL || n->info.outputs == NULL) {
        *status = no_memory(e->in, parent);
        return NULL;
    }
    if (n->body_count > 0)
        *status = copy_bodies(e, parent, n);
    if (*status == INLAY_OK)
        *status = resolve_refs(e, parent, n);
    return *status == INLAY_OK ? n : NULL;
}

static struct graph *copy_graph(const struct expansion *e, const struct graph *from, struct graph *parent,
                                inlay_status *status)
{
    struct arena *a = &parent->model->arena;
    struct graph *g = arena_copy(a, from, sizeof *from);

    *status = g == NULL ? no_memory(e->in, parent) : check_budget(e->in, parent, e->fn);
    if (*status != INLAY_OK)
        return NULL;
    g->parent = parent;
    g->value_capacity = g->value_count;
    g->node_capacity = g->node_count;
    g->values = arena_copy(a, from->values, from->value_count * sizeof *from->values);
    g->nodes = arena_copy(a, from->nodes, from->node_count * sizeof *from->nodes);
    g->inputs = arena_copy(a, from->inputs, from->input_count * sizeof(uint32_t));
    g->outputs = arena_copy(a, from->outputs, from->output_count * sizeof(uint32_t));
    if (g->values == NULL || g->nodes == NULL || g->inputs == NULL || g->outputs == NULL) {
        *status = no_memory(e->in, parent);
        return NULL;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        g->nodes[i] = copy_node(e, from->nodes[i], g, status);
        if (g->nodes[i] == NULL)
            return NULL;
    }
    return g;
}

/* ------------------------------------------------------------------ expansion */

static inlay_status append(const struct inliner *in, struct graph *g, graph_node *n)
{
    return graph_append_node(g, n) == INLAY_OK ? INLAY_OK : no_memory(in, g);
}

/* Moves the copied node into g: its values become g's. */
static inlay_status adopt_node(struct expansion *e, graph_node *n)
{
    inlay_status status = INLAY_OK;

    n->place = e->call->place;
    n->info.name.data = arena_format(&e->g->model->arena, "%s/%s", e->call->info.name.data, n->info.name.data);
    if (n->info.name.data == NULL)
        return no_memory(e->in, e->g);
    n->info.name.bytes = strlen(n->info.name.data);
    INLAY_TRY(map_list(e, n->info.inputs, n->info.input_count, &n->info.inputs));
    INLAY_TRY(map_list(e, n->info.outputs, n->info.output_count, &n->info.outputs));
    for (uint32_t b = 0; b < n->body_count; b++) {
        graph_body *body = &n->bodies[b];
        uint32_t kept = 0;

        body->graph->parent = e->g;
        for (uint32_t c = 0; c < body->capture_count; c++) {
            uint32_t inner = body->capture_inner[c], outer;

            INLAY_TRY(map_value(e, body->capture_outer[c], &outer));
            if (outer == INLAY_NONE) {
                INLAY_TRY(omit_value(e, body->graph, inner));
                continue;
            }
            body->capture_outer[kept] = outer;
            body->capture_inner[kept++] = inner;
        }
        body->capture_count = kept;
        body->graph->captured = body->capture_inner;
        body->graph->captured_count = kept;
        INLAY_TRY(inline_graph(e->in, body->graph));
    }
done:
    return status;
}

/* A formal output that is a formal input, a constant or another output as well cannot simply be renamed. */
static inlay_status add_identity(struct expansion *e, uint32_t from, uint32_t to)
{
    graph_node *n = graph_add_node(e->g, "Identity", "ai.onnx", "", 1, 1);
    uint32_t *inputs = n == NULL ? NULL : arena_copy(&e->g->model->arena, &from, sizeof from);
    uint32_t *outputs = n == NULL ? NULL : arena_copy(&e->g->model->arena, &to, sizeof to);

    if (inputs == NULL || outputs == NULL)
        return no_memory(e->in, e->g);
    if (from == INLAY_NONE)
        return graph_fail(e->g, e->call, NULL, INLAY_INVALID_MODEL, e->in->diag,
                          "an output of function '%.64s' is an input that the call omits", e->fn->name);
    n->info.inputs = inputs;
    n->info.outputs = outputs;
    n->opset = n->opset == 0 ? 1 : n->opset;
    return INLAY_OK;
}

static inlay_status bind_formals(struct expansion *e)
{
    const struct graph *body = e->fn->body;
    const inlay_node_info *call = &e->call->info;

    if (call->input_count > body->input_count || call->output_count > body->output_count)
        return graph_fail(e->g, e->call, NULL, INLAY_INVALID_MODEL, e->in->diag,
                          "has %u inputs and %u outputs, but function '%.64s' takes %u and gives %u", call->input_count,
                          call->output_count, e->fn->name, body->input_count, body->output_count);
    for (uint32_t v = 0; v < body->value_count; v++)
        e->map[v] = UNSET;
    for (uint32_t i = 0; i < body->input_count; i++)
        e->map[body->inputs[i]] = i < call->input_count ? call->inputs[i] : INLAY_NONE;
    for (uint32_t o = 0; o < call->output_count; o++) {
        uint32_t v = body->outputs[o];

        if (call->outputs[o] != INLAY_NONE && e->map[v] == UNSET &&
            (body->values[v].info.flags & INLAY_VALUE_CONSTANT) == 0)
            e->map[v] = call->outputs[o];
    }
    return INLAY_OK;
}

static inlay_status expand_body(struct expansion *e)
{
    const struct graph *body = e->fn->body;
    inlay_status status = bind_formals(e);

    for (uint32_t i = 0; status == INLAY_OK && i < body->node_count; i++) {
        graph_node *n = copy_node(e, body->nodes[i], e->g, &status);
        const graph_function *fn;

        if (n == NULL)
            break;
        status = adopt_node(e, n);
        if (status != INLAY_OK)
            break;
        status = called(e->in, n, &fn);
        if (status == INLAY_OK)
            status = fn == NULL ? append(e->in, e->g, n) : expand(e->in, e->g, e->taken, n, fn);
    }
    for (uint32_t o = 0; status == INLAY_OK && o < e->call->info.output_count; o++) {
        uint32_t to = e->call->info.outputs[o], from;

        if (to == INLAY_NONE)
            continue;
        status = map_value(e, body->outputs[o], &from);
        if (status == INLAY_OK && from != to)
            status = add_identity(e, from, to);
    }
    return status;
}

static inlay_status expand(struct inliner *in, struct graph *g, names_table *taken, const graph_node *call,
                           const graph_function *fn)
{
    struct expansion e = { .in = in, .g = g, .taken = taken, .call = call, .fn = fn };
    inlay_status status;

    for (uint32_t i = 0; i < in->depth; i++)
        if (in->active[i] == fn)
            return graph_fail(g, call, NULL, INLAY_INVALID_MODEL, in->diag,
                              "function '%.64s' calls itself; ONNX functions cannot recurse", fn->name);
    if (in->depth == MAX_CALL_DEPTH)
        return graph_fail(g, call, NULL, INLAY_LIMIT_EXCEEDED, in->diag, "functions call functions more than %d deep",
                          MAX_CALL_DEPTH);
    e.map = calloc((size_t)fn->body->value_count + 1, sizeof *e.map);
    if (e.map == NULL)
        return no_memory(in, g);
    in->active[in->depth++] = fn;
    status = expand_body(&e);
    in->depth--;
    free(e.map);
    return status;
}

static inlay_status has_calls(struct inliner *in, const struct graph *g, bool *out)
{
    const graph_function *fn = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < g->node_count && fn == NULL && status == INLAY_OK; i++)
        status = called(in, g->nodes[i], &fn);
    *out = fn != NULL;
    return status;
}

static inlay_status inline_graph(struct inliner *in, struct graph *g)
{
    inlay_status status = INLAY_OK;
    graph_node **old = g->nodes;
    uint32_t old_count = g->node_count;
    names_table taken = { 0 };
    bool calls;

    for (uint32_t i = 0; i < old_count; i++)
        for (uint32_t b = 0; b < old[i]->body_count; b++)
            INLAY_TRY(inline_graph(in, old[i]->bodies[b].graph));
    INLAY_TRY(has_calls(in, g, &calls));
    if (!calls)
        goto done;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (!names_add(&taken, g->values[v].info.name.data, (size_t)g->values[v].info.name.bytes, v, NULL)) {
            status = no_memory(in, g);
            goto done;
        }
    }
    g->nodes = NULL;
    g->node_count = g->node_capacity = 0;
    for (uint32_t i = 0; i < old_count; i++) {
        const graph_function *fn;

        INLAY_TRY(called(in, old[i], &fn));
        INLAY_TRY(fn == NULL ? append(in, g, old[i]) : expand(in, g, &taken, old[i], fn));
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
