/* api/extract_api.c - inlay.h: parts of models as files of their own. */
#include "base/memory.h"
#include "base/nearest.h"
#include "base/order.h"
#include "explain/facts.h"
#include "model/cut.h"
#include "session/session.h"
#include <string.h>

struct extraction {
    const char *path;
    const inlay_options *options;
    inlay_extract_args *args;
    bool done; /* whatever came of it */
    inlay_status status;
    inlay_diag *diag;
};

static const char *nth_value(const void *ctx, uint32_t i)
{
    return ((const struct graph *)ctx)->values[i].info.name.data;
}

/* Names to values of the main graph, each once: *count becomes smaller where names repeat. NULL: one is not there, or
 * no memory. */
static const uint32_t *find_values(graph_model *model, const char *const *names, uint32_t *count, const char *what,
                                   inlay_diag *diag)
{
    uint32_t *list = arena_array(&model->arena, (size_t)*count + 1, sizeof *list), found = 0;

    if (list == NULL)
        (void)no_memory(diag, "for %u names", *count);
    for (uint32_t i = 0; list != NULL && i < *count; i++) {
        const uint32_t v = graph_find_value(model->main, names[i]);

        if (v == INLAY_NONE) {
            const char *near = nearest_name(names[i], nth_value, model->main, model->main->value_count);

            (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the main graph has no value '%.200s'%s%.200s%s", what,
                             names[i], near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                             near != NULL ? "'?" : "");
            return NULL;
        }
        if (!is_listed(list, found, v))
            list[found++] = v;
    }
    *count = found;
    return list;
}

static inlay_status part_by_patterns(const struct extraction *x, graph_model *model, model_part *out)
{
    const struct graph *g = model->main;
    bool *nodes = arena_array(&model->arena, (size_t)g->node_count + 1, sizeof *nodes);

    if (nodes == NULL)
        return no_memory(x->diag, "for %u nodes", g->node_count);
    for (uint32_t p = 0; p < x->args->node_count; p++) {
        bool found = false;

        for (uint32_t i = 0; i < g->node_count; i++)
            if (facts_matches(x->args->nodes[p], &g->nodes[i]->info))
                nodes[i] = found = true;
        if (!found)
            return inlay_fail(x->diag, INLAY_INVALID_ARGUMENT,
                              "nodes: no node of the main graph fits '%.200s'; inlay "
                              "inspect --nodes lists them",
                              x->args->nodes[p]);
    }
    return model_part_of(model, nodes, x->args->depth, out, x->diag);
}

/* Stages of as many nodes each, in the order in which they run. */
static inlay_status part_by_number(const struct extraction *x, graph_model *model, model_part *out)
{
    const struct graph *g = model->main;
    bool *nodes = arena_array(&model->arena, (size_t)g->node_count + 1, sizeof *nodes);
    const uint64_t count = g->node_count, parts = x->args->part_count;

    if (x->args->part >= parts || parts > count)
        return inlay_fail(x->diag, INLAY_INVALID_ARGUMENT, "part %u of %u: the main graph has %u nodes", x->args->part,
                          x->args->part_count, g->node_count);
    if (nodes == NULL)
        return no_memory(x->diag, "for %u nodes", g->node_count);
    for (uint64_t i = count * x->args->part / parts; i < count * (x->args->part + 1) / parts; i++)
        nodes[i] = true;
    return model_part_of(model, nodes, 0, out, x->diag);
}

static inlay_status part_by_names(const struct extraction *x, graph_model *model, model_part *out)
{
    const inlay_extract_args *a = x->args;
    uint32_t input_count = a->input_count, output_count = a->output_count;
    const uint32_t *inputs = find_values(model, a->inputs, &input_count, "inputs", x->diag);
    const uint32_t *outputs =
        output_count == 0 ? model->main->outputs : find_values(model, a->outputs, &output_count, "outputs", x->diag);

    if (inputs == NULL || outputs == NULL)
        return INLAY_INVALID_ARGUMENT;
    return model_part_between(model, inputs, input_count, outputs,
                              output_count == 0 ? model->main->output_count : output_count, out, x->diag);
}

/* Cuts the file's model, of which typed (may be NULL) knows the types. */
static inlay_status extract(const struct extraction *x, const struct graph *typed, const char *why)
{
    const session_source source = { .path = x->path, .fd = -1 };
    const model_save_options save = { .external_file = x->args->external_file };
    inlay_session raw = { .model = NULL };
    model_part part = { 0 };
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->options, x->diag));
    x->args->nodes_all = raw.model->main->node_count;
    INLAY_TRY(x->args->node_count > 0   ? part_by_patterns(x, raw.model, &part)
              : x->args->part_count > 0 ? part_by_number(x, raw.model, &part)
                                        : part_by_names(x, raw.model, &part));
    INLAY_TRY(model_cut(raw.model, &part, typed, why, x->diag));
    x->args->nodes_kept = part.kept;
    INLAY_TRY(model_save(raw.model, x->args->out_path, &save, x->diag));
done:
    graph_model_destroy(raw.model);
    return status;
}

/* Between inference and the first pass: here all values of the file have their types. What comes after is not needed.
 */
static inlay_status at_start(void *ctx, const inlay_session *s, const char *pass)
{
    struct extraction *x = ctx;

    (void)pass;
    x->status = extract(x, s->model->main, NULL);
    x->done = true;
    return INLAY_CANCELLED;
}

inlay_status inlay_extract(const char *path, const inlay_options *options, inlay_extract_args *args, inlay_diag *diag)
{
    struct extraction x = { .path = path, .options = options, .args = args, .diag = diag };
    const session_watch watch = { .after = at_start, .ctx = &x };
    const session_source source = { .path = path, .fd = -1 };
    inlay_session *s = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (!INLAY_HAS(args, nodes_all) || args->out_path == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_extract: args.struct_size or args.out_path is not set");
    if ((args->node_count > 0) + (args->part_count > 0) + (args->input_count + args->output_count > 0) != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_extract: name inputs and outputs, or nodes, or a part");
    status = session_prepare(&source, options, &watch, &s, &why);
    if (status == INLAY_OK)
        inlay_session_destroy(s);
    if (x.done)
        return x.status;
    if (status == INLAY_CANCELLED)
        return inlay_fail(diag, status, "%s", why.text);
    /* A model that cannot be run can be cut: the file may declare what is needed. */
    return extract(&x, NULL, why.text);
}
