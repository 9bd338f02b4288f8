/* session/update.c - makes a version of a session with other weights. It loads the model again from the bytes that the
 * session has mapped, with the new tensors in place of the old ones, optimises it, and compiles its regions, except
 * those that the new version takes over. The session changes only after all of this has succeeded. */
#include "session/update.h"
#include "base/heap.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "inlay/check.h"
#include "session/hash_memo.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

static inlay_status copy_value(const char *name, const inlay_value *given, inlay_value **out, inlay_diag *diag)
{
    const inlay_value *items = given;
    inlay_status status;

    if (given->kind != INLAY_KIND_TENSOR)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the value for weight '%.100s' is not a tensor", name);
    if (given->buffer.domain != INLAY_DOMAIN_HOST)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the value for weight '%.100s' is in the memory of a device; see inlay_value_copy()", name);
    if (given->dtype == INLAY_STRING)
        return value_create_strings(given->rank, given->dims, value_data(items), out, diag);
    status = value_create(given->dtype, given->rank, given->dims, false, out, diag);
    if (status == INLAY_OK && given->buffer.bytes > 0)
        memcpy(value_data(*out), value_data(given), (size_t)given->buffer.bytes);
    return status;
}

static inlay_status make_weight(const char *name, const inlay_value *value, session_weight **out, inlay_diag *diag)
{
    const size_t bytes = strlen(name) + 1;
    session_weight *weight = calloc(1, sizeof *weight + bytes);
    inlay_status status;

    *out = weight;
    if (weight == NULL)
        return no_memory(diag, "for weight '%.100s'", name);
    weight->references = 1;
    memcpy(weight->name, name, bytes);
    status = copy_value(name, value, &weight->value, diag);
    if (status == INLAY_OK)
        return INLAY_OK;
    *out = NULL;
    session_weight_unref(weight);
    return status;
}

static uint32_t find_weight(const session_version *version, const char *name)
{
    uint32_t i = 0;

    while (i < version->weight_count && strcmp(version->weights[i]->name, name) != 0)
        i++;
    return i;
}

/* The tensors of the version before, and the given ones. */
static inlay_status gather_weights(session_version *version, const session_version *before, uint32_t count,
                                   const char *const *names, inlay_value *const *values, inlay_diag *diag)
{
    version->weights = calloc((size_t)before->weight_count + count + 1, sizeof(session_weight *));
    if (version->weights == NULL)
        return no_memory(diag, "for weights");
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status;

        if (names[i] == NULL || values[i] == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "weight %u of %u has no %s", i, count,
                              names[i] == NULL ? "name" : "value");
        if (find_weight(version, names[i]) < version->weight_count)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "weight '%.100s' is given twice; give each once", names[i]);
        status = make_weight(names[i], values[i], &version->weights[version->weight_count], diag);
        if (status != INLAY_OK)
            return status;
        version->weight_count++;
    }
    for (uint32_t i = 0; i < before->weight_count; i++) {
        if (find_weight(version, before->weights[i]->name) < version->weight_count)
            continue;
        (void)__atomic_add_fetch(&before->weights[i]->references, 1, __ATOMIC_RELAXED);
        version->weights[version->weight_count++] = before->weights[i];
    }
    return INLAY_OK;
}

static bool is_initializer(const graph_value *value)
{
    return (value->info.flags & INLAY_VALUE_CONSTANT) != 0 || value->default_value != NULL;
}

/* An initializer of a loaded model. */
typedef struct found_initializer {
    struct graph *graph;
    uint32_t value;
    uint32_t count; /* how many graphs have one of that name */
    bool computed;  /* a value of that name is none */
} found_initializer;

static void find_initializer(struct graph *graph, const char *name, found_initializer *found)
{
    const uint32_t value = graph_find_value(graph, name);

    if (value != INLAY_NONE && is_initializer(&graph->values[value])) {
        found->graph = graph;
        found->value = value;
        found->count++;
    }
    found->computed |= value != INLAY_NONE;
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            find_initializer(graph->nodes[node]->bodies[b].graph, name, found);
}

static const char *initializer_name(const void *ctx, uint32_t i)
{
    const struct graph *graph = ctx;

    return is_initializer(&graph->values[i]) ? graph->values[i].info.name.data : "";
}

static inlay_status fail_unknown(const graph_model *model, const char *name, const found_initializer *found,
                                 inlay_diag *diag)
{
    char hint[NEAREST_HINT_BYTES];

    if (found->count > 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%u graphs of the model have an initializer '%.100s'; give each a name of its own",
                          found->count, name);
    if (found->computed)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "'%.100s' is not a dense initializer of the model: only those can be replaced", name);
    nearest_hint(hint, "; use the name that the model's file has", name, initializer_name, model->main,
                 model->main->value_count);
    return inlay_fail(diag, INLAY_NOT_FOUND, "the model has no initializer '%.100s'%s", name, hint);
}

/* The type and shape of an initializer, in dims [INLAY_MAX_RANK]. */
static run_value type_of(const graph_value *value, int64_t *dims)
{
    const inlay_tensor_view *view = value->default_value;
    run_value type = { .kind = INLAY_KIND_TENSOR, .dims = dims };

    type.dtype = view != NULL ? view->dtype : value->info.dtype;
    type.rank = view != NULL ? view->rank : value->info.rank;
    INLAY_CHECK(type.rank <= INLAY_MAX_RANK);
    for (uint32_t d = 0; d < type.rank; d++)
        dims[d] = view != NULL ? view->dims[d] : value->info.dims[d].value;
    return type;
}

static inlay_status place_weight(graph_model *model, const session_weight *weight, inlay_diag *diag)
{
    const inlay_value *given = weight->value;
    const void *data = value_data(given);
    found_initializer found = { .count = 0 };
    int64_t dims[INLAY_MAX_RANK];
    char want[128], got[128];
    graph_value *value;
    run_value type, view;

    find_initializer(model->main, weight->name, &found);
    if (found.count != 1)
        return fail_unknown(model, weight->name, &found, diag);
    value = &found.graph->values[found.value];
    type = type_of(value, dims);
    if (type.dtype != given->dtype || type.rank != given->rank ||
        memcmp(dims, given->dims, given->rank * sizeof *dims) != 0) {
        view = run_value_of((inlay_value *)(uintptr_t)given);
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "weight '%.100s' is %s, the value is %s: give it the type and shape of the weight",
                          weight->name, run_value_describe(&type, want), run_value_describe(&view, got));
    }
    if (value->default_value != NULL) {
        const inlay_tensor_view changed = { .dtype = given->dtype,
                                            .rank = given->rank,
                                            .dims = given->dims,
                                            .data = data != NULL ? data : value->default_value->data,
                                            .bytes = given->buffer.bytes };

        value->default_value = arena_copy(&model->arena, &changed, sizeof changed);
        return value->default_value != NULL ? INLAY_OK : no_memory(diag, "for weight '%.100s'", weight->name);
    }
    if (graph_set_constant(found.graph, found.value, given->dtype, given->rank, given->dims, data,
                           given->buffer.bytes) != INLAY_OK)
        return no_memory(diag, "for weight '%.100s'", weight->name);
    return INLAY_OK;
}

static bool same_type(const graph_model *a, const graph_value *first, const graph_model *b, const graph_value *second)
{
    const inlay_value_info *x = &first->info, *y = &second->info;

    if (x->kind != y->kind || x->dtype != y->dtype || x->rank != y->rank || first->inner_kind != second->inner_kind ||
        first->map_key != second->map_key)
        return false;
    for (uint32_t d = 0; x->rank != INLAY_RANK_UNKNOWN && d < x->rank; d++)
        if (x->dims[d].kind != y->dims[d].kind ||
            (x->dims[d].kind == INLAY_DIM_FIXED && x->dims[d].value != y->dims[d].value) ||
            (x->dims[d].kind == INLAY_DIM_SYMBOLIC &&
             strcmp(a->symbols[x->dims[d].symbol].name.data, b->symbols[y->dims[d].symbol].name.data) != 0))
            return false;
    return true;
}

/* A tensor that determines a shape may change the types of outputs, which the session has promised to its callers. */
static inlay_status check_interface(const graph_model *before, const graph_model *after, inlay_diag *diag)
{
    const struct graph *a = before->main, *b = after->main;

    if (a->input_count != b->input_count || a->output_count != b->output_count)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "the model's file has other inputs or outputs than when the session was created: create a "
                          "session of the changed file");
    for (uint32_t i = 0; i < a->input_count + a->output_count; i++) {
        const uint32_t x = i < a->input_count ? a->inputs[i] : a->outputs[i - a->input_count];
        const uint32_t y = i < a->input_count ? b->inputs[i] : b->outputs[i - a->input_count];

        if (x != INLAY_NONE && y != INLAY_NONE && !same_type(before, &a->values[x], after, &b->values[y]))
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "'%.100s' would have another type or shape: create a session of the changed model",
                              a->values[x].info.name.data);
    }
    return INLAY_OK;
}

static inlay_status load_model(const inlay_session *session, session_version *version, inlay_diag *diag)
{
    inlay_status status = session_load_again(session, &version->model, diag);

    for (uint32_t i = 0; status == INLAY_OK && i < version->weight_count; i++)
        status = place_weight(version->model, version->weights[i], diag);
    return status;
}

static inlay_status make_program(inlay_session *session, session_version *version, inlay_diag *diag)
{
    const uint32_t held = threads_set_limit(session->env.max_threads);
    inlay_status status;

    version->env = session->env;
    version->env.sizes = &version->sizes;
    version->sizes.assumed = session->costs.sizes.assumed;
    version->sizes.assumed_count = session->costs.sizes.assumed_count;
    version->env.donor = session->main;
    hash_copy(session->main->graph, version->model->main);
    (void)hash_constants(version->model->main, NULL, 0);
    (void)threads_set_limit(held);
    status = program_create(version->model->main, &version->env, &version->main, diag);
    version->env.donor = NULL;
    return status == INLAY_OK ? session_prepare_sizes(session, version->main, diag) : status;
}

/* program_each_home(): finds the version, and adds it once. */
typedef struct home_list {
    const inlay_session *session;
    session_version *version;
    uint32_t capacity;
} home_list;

static void add_home(void *ctx, const struct program *home)
{
    home_list *list = ctx;
    session_version *version = list->version, *found = list->session->versions.all;

    while (found != NULL && found->main != home)
        found = found->next;
    INLAY_CHECK(found != NULL);
    for (uint32_t i = 0; i < version->home_count; i++)
        if (version->homes[i] == found)
            return;
    INLAY_CHECK(version->home_count < list->capacity);
    version->homes[version->home_count++] = found;
}

static inlay_status find_homes(inlay_session *session, session_version *version, inlay_diag *diag)
{
    home_list list = { .session = session, .version = version };

    /* contexts may end versions meanwhile, except those in the list of homes */
    (void)pthread_mutex_lock(&session->contexts.lock);
    if (session->versions.latest == &session->versions.first)
        session->versions.first.main = session->main;
    for (const session_version *other = session->versions.all; other != NULL; other = other->next)
        list.capacity++;
    version->homes = calloc((size_t)list.capacity + 1, sizeof(session_version *));
    if (version->homes != NULL)
        program_each_home(version->main, add_home, &list);
    (void)pthread_mutex_unlock(&session->contexts.lock);
    return version->homes != NULL ? INLAY_OK : no_memory(diag, "for weights");
}

/* With a limit of host memory: both versions together must fit until the earlier one is released. */
static inlay_status check_limit(const inlay_session *session, uint64_t heap_before, inlay_diag *diag)
{
    uint64_t grown = 0, required;

    if (session->env.memory.held_bytes == NULL)
        return INLAY_OK;
    (void)heap_count(&grown, heap_before, 0);
    return run_memory_fits(session->limits.memory, grown, 0, &required)
               ? INLAY_OK
               : run_memory_limit_error(session->limits.memory, "the session with both versions of its weights",
                                        required, false, diag);
}

/* Optimises and compiles the model of the version. */
static inlay_status build(inlay_session *session, session_version *version, uint64_t heap_before, inlay_diag *diag)
{
    inlay_status status = session_optimise(session, version->model, session->versions.options, diag);

    if (status == INLAY_OK)
        status = check_interface(session->model, version->model, diag);
    if (status == INLAY_OK)
        status = make_program(session, version, diag);
    if (status == INLAY_OK)
        status = check_limit(session, heap_before, diag);
    return status == INLAY_OK ? find_homes(session, version, diag) : status;
}

/* Messages about the model do not name the weight whose change has caused them. */
static inlay_status fail_build(const session_version *version, uint32_t count, inlay_status status,
                               const inlay_diag *why, inlay_diag *diag)
{
    char others[40] = "";

    if (count > 1)
        (void)snprintf(others, sizeof others, " and %u more", count - 1);
    return inlay_fail(diag, status, "weight '%.100s'%s cannot be replaced: %.300s", version->weights[0]->name, others,
                      why->text);
}

static inlay_status make_version(inlay_session *session, session_version *version, uint32_t count,
                                 const char *const *names, inlay_value *const *values, inlay_diag *diag)
{
    const uint64_t heap_before = session->env.memory.held_bytes != NULL ? heap_bytes() : 0;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = gather_weights(version, session->versions.latest, count, names, values, diag);

    if (status == INLAY_OK)
        status = load_model(session, version, diag);
    if (status != INLAY_OK)
        return status;
    status = build(session, version, heap_before, &why);
    return status == INLAY_OK ? INLAY_OK : fail_build(version, count, status, &why, diag);
}

inlay_status session_update(inlay_session *session, uint32_t count, const char *const *names,
                            inlay_value *const *values, inlay_diag *diag)
{
    session_version *version;
    inlay_status status;

    if (count == 0)
        return INLAY_OK;
    if (names == NULL || values == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_session_update: names or values is NULL");
    session_background_wait(session);
    status = session_enter_providers(session, diag);
    if (status != INLAY_OK)
        return status;
    session_hold(session);
    version = calloc(1, sizeof *version);
    status =
        version == NULL ? no_memory(diag, "for weights") : make_version(session, version, count, names, values, diag);
    if (status == INLAY_OK)
        session_version_set(session, version);
    else
        session_version_destroy(version);
    session_unhold(session);
    session_leave_providers(session);
    return status;
}
