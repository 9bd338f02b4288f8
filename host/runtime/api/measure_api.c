/* api/measure_api.c - inlay.h: calibration, tuning, times of runs. */
#include "api/context.h"
#include "api/insight.h"
#include "base/parts.h"
#include "base/sized_struct.h"

inlay_status inlay_calibrate(const inlay_options *options, const inlay_calibrate_options *what,
                             inlay_calibrate_result *out_result, inlay_diag *diag)
{
    const insight_part *insight = api_tuning("inlay_calibrate", diag);

    return insight != NULL ? insight->calibrate(options, what, out_result, diag) : INLAY_UNSUPPORTED;
}

inlay_status inlay_tune(inlay_session *session, const inlay_tune_options *how, inlay_tune_result *out_result,
                        inlay_diag *diag)
{
    const insight_part *insight = api_tuning("inlay_tune", diag);

    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    INLAY_CHECK(session_check(session));
    session_background_wait(session);
    return insight->tune(session, how, out_result, diag);
}

inlay_status inlay_context_measure(inlay_context *context, uint32_t on, inlay_diag *diag)
{
    const insight_part *insight = api_insight("inlay_context_measure", diag);
    run_observer *observer = NULL;
    inlay_status status;

    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    session_context_enter(context->session, &context->entry);
    status = context_end_measuring(context, diag);
    if (status == INLAY_OK && on != 0)
        status = insight->time(context->runner->prog, &observer, diag);
    if (observer != NULL)
        context_begin_measuring(context, observer);
    session_context_leave(&context->entry);
    return status;
}

inlay_status inlay_context_record(inlay_context *context, uint32_t *out_count, inlay_diag *diag)
{
    const insight_part *insight = api_tuning("inlay_context_record", diag);
    uint32_t count = 0;
    inlay_status status;

    if (out_count != NULL)
        *out_count = 0;
    if (insight == NULL)
        return INLAY_UNSUPPORTED;
    session_context_enter(context->session, &context->entry);
    status = insight->record(context->session, context->runner, context->measuring, &count, diag);
    session_context_leave(&context->entry);
    if (status == INLAY_OK && out_count != NULL)
        *out_count = count;
    return status;
}

static inlay_status describe_plan(const struct runner *runner, const inlay_plan_info *wanted, inlay_plan_info *info)
{
    const struct bound *bound = runner->plans.now;
    const struct graph *graph = runner->prog->graph;

    if (bound == NULL)
        return INLAY_NOT_FOUND;
    for (uint32_t d = 0; d < bound->plan->domain_count; d++)
        info->slab_bytes += bound->plan->slab_bytes[d];
    info->lower_bound_bytes = bound->plan->lower_bound_bytes;
    for (uint32_t value = 0; value < graph->value_count; value++)
        if ((graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0)
            info->constant_bytes += graph->values[value].info.data_bytes;
    info->step_count = bound->plan->step_count;
    info->dynamic_step_count = bound->plan->dynamic_count;
    if (INLAY_HAS(wanted, predicted_ns) && library_parts.insight != NULL)
        info->predicted_ns = library_parts.insight->predict(runner);
    return INLAY_OK;
}

inlay_status inlay_context_plan(const inlay_context *of, inlay_plan_info *out_info)
{
    inlay_context *writable = context_last((inlay_context *)(uintptr_t)of);
    const inlay_context *context = writable;
    inlay_plan_info info = { .struct_size = sizeof info };
    inlay_status status;

    session_context_enter(context->session, &writable->entry);
    status = describe_plan(context->runner, out_info, &info);
    session_context_leave(&writable->entry);
    if (status != INLAY_OK)
        return status;
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

const char *inlay_context_variant(const inlay_context *context, double *out_error)
{
    const session_loading *loading = &context_last((inlay_context *)(uintptr_t)context)->session->loading;

    if (out_error != NULL)
        *out_error = loading->variant != NULL ? loading->variant_error : -1;
    return loading->variant;
}
