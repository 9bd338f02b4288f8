/* api/optimize_api.c - inlay.h: optimising files. */
#include "model/model.h"
#include "passes/pass.h"
#include "session/session.h"

/* What is known between two passes. */
struct follower {
    inlay_optimize_args *args;
    const inlay_options *options;
    uint32_t nodes;
    double cost_ns;
    inlay_diag *diag;
};

static void on_note(void *ctx, const char *pass, int64_t rewrite, const struct graph *g, const graph_node *n,
                    const char *text)
{
    const struct follower *f = ctx;
    inlay_optimize_event event = { .struct_size = sizeof event,
                                   .pass = pass,
                                   .graph = g->name,
                                   .node = n->info.name.data,
                                   .text = text,
                                   .rewrite = (uint64_t)rewrite };

    if (f->args->event != NULL)
        f->args->event(f->args->user, &event);
}

/* What a run of the graph and its bodies is expected to take now. Nothing that fails here is the model's fault alone (a
 * provider may lack an operator until a later pass): then the cost stays 0. */
static double price(struct follower *f, const struct graph *g, const program_env *env)
{
    struct arena a = { 0 };
    inlay_graph snapshot;
    struct partition parts;
    double ns = 0;
    part_request request = { .graph = g,
                             .snapshot = &snapshot,
                             .providers = env->providers,
                             .provider_count = env->provider_count,
                             .max_threads = env->max_threads,
                             .rules = env->rules,
                             .costs = env->costs,
                             .sizes = env->sizes };

    if (graph_snapshot(g, &a, &snapshot, NULL) == INLAY_OK && partition_graph(&request, &a, &parts, NULL) == INLAY_OK)
        ns = parts.cost_ns;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            ns += price(f, g->nodes[i]->bodies[b].graph, env);
    arena_deinit(&a);
    return ns;
}

static inlay_status after_pass(void *ctx, const inlay_session *s, const char *pass)
{
    struct follower *f = ctx;
    inlay_optimize_event event = { .struct_size = sizeof event,
                                   .pass = pass,
                                   .graph = s->model->main->name,
                                   .text = "",
                                   .nodes_before = f->nodes,
                                   .cost_before_ns = f->cost_ns };
    inlay_session priced;

    f->nodes = session_count_nodes(s->model->main);
    if (f->args->with_costs != 0) {
        priced = *s; /* costs of sizes that are assumed hang on the graph as it is now */
        priced.a = (struct arena){ 0 };
        if (session_costs_open(&priced, f->options, NULL) == INLAY_OK)
            f->cost_ns = price(f, s->model->main, &priced.env);
        session_costs_close(&priced);
        arena_deinit(&priced.a);
    }
    event.nodes_after = f->nodes;
    event.cost_after_ns = f->cost_ns;
    if (pass[0] == '\0')
        f->args->nodes_before = f->nodes;
    else if (f->args->event != NULL)
        f->args->event(f->args->user, &event);
    return INLAY_OK;
}

inlay_status inlay_optimize(const char *path, const inlay_options *options, inlay_optimize_args *args, inlay_diag *diag)
{
    struct follower f = { .args = args, .options = options, .diag = diag };
    session_watch watch = { .note = args->event != NULL ? on_note : NULL, .after = after_pass, .ctx = &f };
    session_source source = { .path = path, .fd = -1 };
    model_save_options save = { .external_file = args->external_file };
    inlay_session *s = NULL;
    inlay_status status = INLAY_OK;

    if (!INLAY_HAS(args, nodes_after))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_optimize: args.struct_size is not set");
    if (args->out_path != NULL)
        watch.newest_opset = args->reserved != 0 ? (int64_t)args->reserved : -1;
    INLAY_TRY(session_prepare(&source, options, &watch, &s, diag));
    args->nodes_after = session_count_nodes(s->model->main);
    if (args->out_path == NULL)
        goto done;
    s->model->function_count = 0; /* their calls are inlined */
    INLAY_TRY(model_outline(s->model, args->reserved, diag));
    INLAY_TRY(session_report(s, 1, "writing", diag)); /* from here on the file is written to its end */
    INLAY_TRY(model_save(s->model, args->out_path, &save, diag));
done:
    inlay_session_destroy(s);
    return status;
}

const char *inlay_optimize_pass(uint32_t index, uint32_t *out_level)
{
    return pass_name(index, out_level);
}
