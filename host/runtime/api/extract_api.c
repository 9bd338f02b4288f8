/* api/extract_api.c - inlay.h: saves parts of models as separate files. */
#include "base/memory.h"
#include "base/nearest.h"
#include "base/order.h"
#include "graph/graph.h"
#include "model/model_part.h"
#include "session/session.h"
#include "inlay/check.h"

struct extraction {
    const char *path;
    const inlay_options *options;
    inlay_extract_args *args;
    bool done; /* extract() was called; status is its result */
    inlay_status status;
    inlay_diag *diag;
};

static const char *nth_value(const void *ctx, uint32_t i)
{
    INLAY_CHECK(i < ((const struct graph *)ctx)->value_count);
    return ((const struct graph *)ctx)->values[i].info.name.data;
}

/* Finds the values of the main graph with these names, each once; *count becomes smaller if names repeat. */
static inlay_status find_values(graph_model *model, const char *const *names, uint32_t *count, const char *what,
                                const uint32_t **out, inlay_diag *diag)
{
    uint32_t *list = arena_array(&model->arena, (size_t)*count + 1, sizeof *list), found = 0;

    if (list == NULL)
        return no_memory(diag, "for %u names", *count);
    for (uint32_t i = 0; i < *count; i++) {
        const uint32_t value = graph_find_value(model->main, names[i]);

        if (value == INLAY_NONE) {
            const char *near = nearest_name(names[i], nth_value, model->main, model->main->value_count);

            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the main graph has no value '%.200s'%s%.200s%s", what,
                              names[i], near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                              near != NULL ? "'?" : "");
        }
        if (!is_listed(list, found, value))
            list[found++] = value;
    }
    *count = found;
    *out = list;
    return INLAY_OK;
}

static inlay_status part_by_patterns(const struct extraction *extraction, graph_model *model, model_part *out)
{
    const struct graph *graph = model->main;
    bool *nodes = arena_array(&model->arena, (size_t)graph->node_count + 1, sizeof *nodes);

    if (nodes == NULL)
        return no_memory(extraction->diag, "for %u nodes", graph->node_count);
    for (uint32_t p = 0; p < extraction->args->node_count; p++) {
        bool found = false;

        for (uint32_t i = 0; i < graph->node_count; i++)
            if (graph_node_matches(extraction->args->nodes[p], &graph->nodes[i]->info))
                nodes[i] = found = true;
        if (!found)
            return inlay_fail(extraction->diag, INLAY_INVALID_ARGUMENT,
                              "nodes: no node of the main graph matches '%.200s'; inlay inspect --nodes lists them",
                              extraction->args->nodes[p]);
    }
    return model_part_of(model, nodes, extraction->args->depth, out, extraction->diag);
}

static inlay_status part_by_names(const struct extraction *extraction, graph_model *model, model_part *out)
{
    const inlay_extract_args *args = extraction->args;
    uint32_t input_count = args->input_count, output_count = args->output_count;
    const uint32_t *inputs, *outputs = model->main->outputs;
    inlay_status status;

    INLAY_TRY(find_values(model, args->inputs, &input_count, "inputs", &inputs, extraction->diag));
    if (output_count > 0)
        INLAY_TRY(find_values(model, args->outputs, &output_count, "outputs", &outputs, extraction->diag));
    else
        output_count = model->main->output_count;
    status = model_part_between(model, inputs, input_count, outputs, output_count, out, extraction->diag);
done:
    return status;
}

/* Extracts the part from the file's model. typed: the main graph after inference; NULL: the model cannot be prepared,
 * for the reason `why`. */
static inlay_status extract(const struct extraction *extraction, const struct graph *typed, const char *why)
{
    const session_source source = { .path = extraction->path, .fd = -1 };
    const model_save_options save = { .external_file = extraction->args->external_file };
    inlay_session raw = { .model = NULL };
    model_part part = { 0 };
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, extraction->options, extraction->diag));
    extraction->args->nodes_all = raw.model->main->node_count;
    INLAY_TRY(
        extraction->args->node_count > 0 ? part_by_patterns(extraction, raw.model, &part)
        : extraction->args->part_count > 0
            ? model_part_stage(raw.model, extraction->args->part, extraction->args->part_count, &part, extraction->diag)
            : part_by_names(extraction, raw.model, &part));
    INLAY_TRY(model_cut(raw.model, &part, typed, why, extraction->diag));
    extraction->args->nodes_kept = part.kept;
    INLAY_TRY(model_save(raw.model, extraction->args->out_path, &save, extraction->diag));
done:
    graph_model_destroy(raw.model);
    return status;
}

/* Called between inference and the first pass, when all values of the file have types. Returns INLAY_CANCELLED, because
 * the rest of session_prepare() is not needed. */
static inlay_status at_start(void *ctx, const inlay_session *session, const char *pass)
{
    struct extraction *extraction = ctx;

    (void)pass;
    extraction->status = extract(extraction, session->model->main, NULL);
    extraction->done = true;
    return INLAY_CANCELLED;
}

inlay_status inlay_extract(const char *path, const inlay_options *options, inlay_extract_args *args, inlay_diag *diag)
{
    struct extraction extraction = { .path = path, .options = options, .args = args, .diag = diag };
    const session_watch watch = { .after = at_start, .ctx = &extraction };
    const session_source source = { .path = path, .fd = -1 };
    inlay_session *session = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (!INLAY_HAS(args, nodes_all) || args->out_path == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_extract: args.struct_size or args.out_path is not set");
    if ((args->node_count > 0) + (args->part_count > 0) + (args->input_count + args->output_count > 0) != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_extract: name inputs and outputs, or nodes, or a part");
    status = session_prepare(&source, options, &watch, &session, &why);
    if (status == INLAY_OK)
        inlay_session_destroy(session);
    if (extraction.done)
        return extraction.status;
    if (status == INLAY_CANCELLED || status == INLAY_INVALID_ARGUMENT || status == INLAY_NOT_FOUND ||
        status == INLAY_IO_ERROR) /* not because of the model */
        return inlay_fail(diag, status, "%s", why.text);
    /* A part of a model that cannot be run can be extracted if the file declares the necessary types. */
    return extract(&extraction, NULL, why.text);
}
