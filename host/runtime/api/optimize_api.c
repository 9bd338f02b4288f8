/* api/optimize_api.c - inlay.h: optimising files. */
#include "base/memory.h"
#include "model/model.h"
#include "passes/pass.h"
#include "session/session.h"
#include <stdlib.h>

/* State of the callbacks between two passes. */
struct optimize_observer {
    inlay_optimize_args *args;
    const inlay_options *options;
    uint32_t nodes;
    double cost_ns;
    inlay_diag *diag;
};

static void on_note(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                    const char *text)
{
    const struct optimize_observer *observer = ctx;
    inlay_optimize_event event = { .struct_size = sizeof event,
                                   .pass = pass,
                                   .graph = graph->name,
                                   .node = node->info.name.data,
                                   .text = text,
                                   .rewrite = (uint64_t)rewrite };

    if (observer->args->event != NULL)
        observer->args->event(observer->args->user, &event);
}

/* The expected time of a run of the graph and its bodies. 0 if an error occurs: a provider may lack an operator until a
 * later pass replaces it. */
static double estimate_cost(struct optimize_observer *observer, const struct graph *graph, const program_env *env)
{
    struct arena arena = { 0 };
    inlay_graph snapshot;
    struct partition parts;
    double ns = 0;
    partition_request request = { .graph = graph,
                                  .snapshot = &snapshot,
                                  .providers = env->providers,
                                  .provider_count = env->provider_count,
                                  .max_threads = env->max_threads,
                                  .rules = env->rules,
                                  .costs = env->costs,
                                  .sizes = env->sizes };

    if (graph_snapshot(graph, &arena, &snapshot, NULL) == INLAY_OK &&
        partition_graph(&request, &arena, &parts, NULL) == INLAY_OK)
        ns = parts.cost_ns;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            ns += estimate_cost(observer, graph->nodes[i]->bodies[b].graph, env);
    arena_deinit(&arena);
    return ns;
}

static inlay_status after_pass(void *ctx, const inlay_session *session, const char *pass)
{
    struct optimize_observer *observer = ctx;
    inlay_optimize_event event = { .struct_size = sizeof event,
                                   .pass = pass,
                                   .graph = session->model->main->name,
                                   .text = "",
                                   .nodes_before = observer->nodes,
                                   .cost_before_ns = observer->cost_ns };
    inlay_session priced;

    observer->nodes = session_count_nodes(session->model->main);
    if (observer->args->with_costs != 0) {
        priced = *session; /* a copy, because session_costs_open() stores sizes of the present graph */
        priced.arena = (struct arena){ 0 };
        if (session_costs_open(&priced, observer->options, NULL) == INLAY_OK)
            observer->cost_ns = estimate_cost(observer, session->model->main, &priced.env);
        session_costs_close(&priced);
        arena_deinit(&priced.arena);
    }
    event.nodes_after = observer->nodes;
    event.cost_after_ns = observer->cost_ns;
    if (pass[0] == '\0')
        observer->args->nodes_before = observer->nodes;
    else if (observer->args->event != NULL)
        observer->args->event(observer->args->user, &event);
    return INLAY_OK;
}

static void drop_constant(graph_value *value)
{
    value->declared = value->declared && (value->info.flags & INLAY_VALUE_CONSTANT) == 0;
    value->info.flags &= ~(uint32_t)INLAY_VALUE_CONSTANT;
}

/* Drops the constants of the main graph that nothing reads any more, such as weights whose product has been folded. */
static inlay_status drop_unread(struct graph *graph, inlay_diag *diag)
{
    bool *read = calloc((size_t)graph->value_count + 1, sizeof *read);

    if (read == NULL)
        return no_memory(diag, "to save the model");
    for (uint32_t i = 0; i < graph->output_count; i++)
        read[graph->outputs[i]] = true;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t k = 0; k < graph_read_count(graph->nodes[i]); k++)
            if (graph_read_at(graph->nodes[i], k) != INLAY_NONE)
                read[graph_read_at(graph->nodes[i], k)] = true;
    for (uint32_t i = 0; i < graph->value_count; i++)
        if (!read[i])
            drop_constant(&graph->values[i]);
    free(read);
    return INLAY_OK;
}

inlay_status inlay_optimize(const char *path, const inlay_options *options, inlay_optimize_args *args, inlay_diag *diag)
{
    struct optimize_observer observer = { .args = args, .options = options, .diag = diag };
    session_watch watch = { .note = args->event != NULL ? on_note : NULL, .after = after_pass, .ctx = &observer };
    session_source source = { .path = path, .fd = -1 };
    const bool in_memory = INLAY_HAS(args, data_bytes) && args->data != NULL;
    model_save_options save = { .external_file = args->external_file };
    inlay_session *session = NULL;
    inlay_status status = INLAY_OK;

    if (!INLAY_HAS(args, nodes_after))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_optimize: args.struct_size is not set");
    if ((path == NULL) != in_memory)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_optimize: needs either path or args.data");
    if (in_memory)
        source = (session_source){ .data = args->data, .bytes = args->data_bytes, .fd = -1 };
    watch.near_misses = args->with_costs != 0;
    if (args->out_path != NULL)
        watch.newest_opset = args->target_opset != 0 ? (int64_t)args->target_opset : -1;
    INLAY_TRY(session_prepare(&source, options, &watch, &session, diag));
    args->nodes_after = session_count_nodes(session->model->main);
    if (args->out_path == NULL)
        goto done;
    session->model->function_count = 0; /* their calls are inlined */
    INLAY_TRY(model_convert_versions(session->model, args->target_opset, diag));
    INLAY_TRY(session_report(session, 1, "writing", diag)); /* cannot be cancelled from here on */
    INLAY_TRY(drop_unread(session->model->main, diag));
    INLAY_TRY(model_save(session->model, args->out_path, &save, diag));
done:
    inlay_session_destroy(session);
    return status;
}

const char *inlay_optimize_pass(uint32_t index, uint32_t *out_level)
{
    return pass_name(index, out_level);
}
