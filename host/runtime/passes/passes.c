/* The optimiser: runs the passes of passes.def to a fixed point. */
#include "passes/pass.h"
#include "inlay/check.h"
#include "base/among.h"
#include "base/nearest.h"
#include "base/order.h"
#include "passes/rewrite.h"
#include "passes/type_guard.h"
#include <string.h>

enum { MAX_ROUNDS = 16 };

static const struct {
    uint32_t level;
    const char *name;
    pass_fn run;      /* NULL: the pass is `match` */
    rewrite_fn match; /* NULL: the pass is `run` */
    bool lowers;
} passes[] = {
#define PASS(level, name) { level, #name, pass_##name, NULL, false },
#define REWRITE(level, name) { level, #name, NULL, match_##name, false },
#define LOWERING(name) { 0, #name, pass_##name, NULL, true },
#include "passes/passes.def"
#undef REWRITE
#undef PASS
};

enum { PASS_COUNT = sizeof passes / sizeof passes[0] };

const char *pass_name(uint32_t i, uint32_t *out_level)
{
    if (i >= PASS_COUNT)
        return NULL;
    *out_level = passes[i].level;
    return passes[i].name;
}

static const char *name_at(const void *ctx, uint32_t i)
{
    (void)ctx;
    return passes[i].name;
}

static inlay_status check_names(const char *const *list, uint32_t count, inlay_diag *diag)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *nearest;
        uint32_t k = 0;

        while (k < PASS_COUNT && strcmp(passes[k].name, list[i]) != 0)
            k++;
        if (k < PASS_COUNT)
            continue;
        nearest = nearest_name(list[i], name_at, NULL, PASS_COUNT);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "there is no optimiser pass '%.64s'%s%s%s", list[i],
                          nearest != NULL ? "; did you mean '" : "; `inlay optimize --list` names them",
                          nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    return INLAY_OK;
}

/* Returns true for passes that decompose operators which other runtimes know as well. */
static bool is_decomposition(uint32_t pass)
{
    return is_among(passes[pass].name, "contributed quantized_functions searches");
}

static bool is_wanted(const pass_ctx *ctx, uint32_t pass, uint32_t level)
{
    INLAY_CHECK(pass < PASS_COUNT);
    if (passes[pass].lowers)
        return false; /* run_list(is_lowering) has run it */
    if (ctx->options.newest_opset != 0 && is_decomposition(pass))
        return false;
    if (passes[pass].level == 0)
        return true;
    return passes[pass].level <= level &&
           !is_text_listed(ctx->chosen.never, ctx->chosen.never_count, passes[pass].name) &&
           (ctx->chosen.only_count == 0 || is_text_listed(ctx->chosen.only, ctx->chosen.only_count, passes[pass].name));
}

/* Returns true if the pass runs before all levels. These are the lowering passes, and passes without which lowering
 * passes would not see constants. In models with DynamicQuantizeLinear, Attention is fused here or not at all, so that
 * all levels give the same bits. */
static bool is_lowering(const pass_ctx *ctx, uint32_t pass, uint32_t level)
{
    (void)level;
    if (is_text_listed(ctx->chosen.never, ctx->chosen.never_count, passes[pass].name) ||
        (ctx->options.newest_opset != 0 && is_decomposition(pass)))
        return false;
    return passes[pass].lowers || passes[pass].level == 0 ||
           (ctx->run.quantizes && strcmp(passes[pass].name, "attention") == 0) ||
           is_among(passes[pass].name, "widen_halves fold_constants no_op"); /* widen_halves: for scales */
}

static bool has_op(const struct graph *graph, const char *op_type)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        if (pass_is_op(node, op_type))
            return true;
        for (uint32_t b = 0; b < node->body_count; b++)
            if (has_op(node->bodies[b].graph, op_type))
                return true;
    }
    return false;
}

/* Returns true if there are nodes to lower and the user or a provider wants it. In models with DynamicQuantizeLinear,
 * weights must be constants at every level: the choice of provider, and with it the last bits, depends on it. */
static bool must_lower(const pass_ctx *ctx)
{
    bool wanted = ctx->providers.offers_integers != NULL ||
                  is_text_listed(ctx->chosen.only, ctx->chosen.only_count, "quantized_ops");

    return !is_text_listed(ctx->chosen.never, ctx->chosen.never_count, "quantized_ops") &&
           (ctx->run.quantizes || (wanted && has_op(ctx->model->main, "DequantizeLinear")));
}

/* After a change: binds new nodes to their schemas, sorts all nodes and infers shapes. */
static inlay_status complete(pass_ctx *ctx, bool infer)
{
    inlay_status status = graph_bind(ctx->model, NULL, ctx->diag);

    if (status == INLAY_OK)
        status = graph_finish(ctx->model->main, ctx->diag);
    if (status == INLAY_OK && infer)
        status = graph_infer(ctx->model, ctx->diag);
    INLAY_CHECK(status != INLAY_OK || graph_model_check(ctx->model));
    return status;
}

static inlay_status run_pass(pass_ctx *ctx, uint32_t pass, bool *out_changed)
{
    INLAY_CHECK(pass < PASS_COUNT && (passes[pass].run == NULL) != (passes[pass].match == NULL));
    ctx->run.pass = ctx->model->rewrite.pass = passes[pass].name;
    ctx->model->rewrite.number = ctx->run.rewrites + 1;
    return passes[pass].match != NULL ? rewrite_each_graph(ctx, passes[pass].match, out_changed)
                                      : passes[pass].run(ctx, out_changed);
}

/* Runs the wanted passes until nothing changes. */
static inlay_status run_list(pass_ctx *ctx, bool (*wanted)(const pass_ctx *, uint32_t, uint32_t), uint32_t level)
{
    bool changed = true;
    inlay_status status = INLAY_OK;

    for (uint32_t round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = false;
#ifdef INLAY_CHECKS
        type_guard_expect_all(ctx);
#endif
        for (uint32_t i = 0; i < PASS_COUNT; i++) {
            bool one = false;

            if (!wanted(ctx, i, level))
                continue;
            INLAY_TRY(run_pass(ctx, i, &one));
            if (one)
                INLAY_TRY(complete(ctx, ctx->report.after != NULL));
            if (one && ctx->report.after != NULL)
                INLAY_TRY(ctx->report.after(ctx->report.ctx, ctx->run.pass));
            changed |= one;
        }
        if (changed)
            INLAY_TRY(graph_infer(ctx->model, ctx->diag));
        INLAY_TRY(type_guard_verify(ctx));
    }
done:
    ctx->model->rewrite.pass = NULL;
    ctx->model->rewrite.number = 0;
    return status;
}

/* Visits the graph once more with the passes that report near misses. Nothing changes, except in a model that took too
 * many rounds. */
static inlay_status report_near_misses(pass_ctx *ctx, uint32_t level)
{
    inlay_status status = INLAY_OK;

    ctx->run.at_end = true;
    for (uint32_t i = 0; i < PASS_COUNT; i++) {
        bool changed = false;

        if (!is_wanted(ctx, i, level) || !is_among(passes[i].name, "attention layer_norm"))
            continue;
        INLAY_TRY(run_pass(ctx, i, &changed));
        if (changed)
            INLAY_TRY(complete(ctx, true));
    }
done:
    ctx->run.at_end = false;
    ctx->model->rewrite.pass = NULL;
    ctx->model->rewrite.number = 0;
    return status;
}

inlay_status passes_run(pass_ctx *ctx, uint32_t level)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(check_names(ctx->chosen.only, ctx->chosen.only_count, ctx->diag));
    INLAY_TRY(check_names(ctx->chosen.never, ctx->chosen.never_count, ctx->diag));
    ctx->run.quantizes = has_op(ctx->model->main, "DynamicQuantizeLinear");
    ctx->run.lowers = must_lower(ctx);
    if (ctx->run.lowers)
        INLAY_TRY(run_list(ctx, is_lowering, 0));
    ctx->run.lowers = false;
    ctx->run.lowerings = ctx->run.rewrites;
    INLAY_TRY(run_list(ctx, is_wanted, level));
    if (ctx->report.near_misses)
        status = report_near_misses(ctx, level);
done:
    return status;
}
