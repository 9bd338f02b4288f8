/* api/context_api.c - inlay.h: contexts and their bound values. */
#include "api/context.h"
#include "exec/loop/finite.h"
#include "exec/loop/observe.h"
#include "inlay/plugin.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>

/* Adds the observers that options of the session ask for. */
static inlay_status add_observers(inlay_context *context, inlay_diag *diag)
{
    const inlay_session *session = context->session;
    run_observer *observer;
    inlay_status status = INLAY_OK;

    if (session->rules.single_nodes) {
        INLAY_TRY(finite_check_create(&observer, diag));
        observers_add(&context->shared, observer);
    }
    if (session->client != NULL) {
        INLAY_TRY(session->client->calls->observe(session->client, &observer, diag));
        observers_add(&context->shared, observer);
    }
done:
    return status;
}

/* Option ladder: a context for each of the session's other variants. */
static inlay_status create_variants(inlay_context *context, inlay_diag *diag)
{
    const session_ladder *variants = &context->session->ladder;
    inlay_status status = INLAY_OK;

    context->ladder = ladder_create(variants->count);
    if (context->ladder == NULL)
        return no_memory(diag, "for a run context");
    context->ladder->contexts[0] = context;
    for (uint32_t i = 1; i < variants->count && status == INLAY_OK; i++)
        status = inlay_context_create(variants->variants[i], &context->ladder->contexts[i], diag);
    return status;
}

inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    inlay_context *context = calloc(1, sizeof *context);
    const struct graph *graph = session->model->main;
    struct program *program;

    *out_context = NULL;
    if (context == NULL)
        return no_memory(diag, "for a run context");
    status = session_check_process(session, diag);
    if (status != INLAY_OK) {
        free(context);
        return status;
    }
    if (run_shared_init(&context->shared, session->env.max_threads, session->env.runs.max_bytes,
                        session->limits.memory) != INLAY_OK) {
        free(context);
        return no_memory(diag, "for a run context");
    }
    context->session = session;
    context->inputs = calloc((size_t)graph->input_count + 1, sizeof(inlay_value *));
    context->in = calloc((size_t)graph->input_count + 1, sizeof *context->in);
    context->bound_outputs = calloc((size_t)graph->output_count + 1, sizeof(inlay_value *));
    context->ready = calloc((size_t)graph->input_count + graph->output_count + 1, sizeof *context->ready);
    context->entry.trim = context_trim_idle;
    session_add_context(session, &context->entry);
    if (context->inputs == NULL || context->in == NULL || context->bound_outputs == NULL || context->ready == NULL) {
        status = no_memory(diag, "for a run context");
        goto done;
    }
    context->version = session_version_take(session, &program);
    INLAY_TRY(add_observers(context, diag));
    INLAY_TRY(runner_create(program, &context->shared, &context->runner, diag));
    INLAY_TRY(context_make_defaults(context, program, diag));
    if (session->ladder.count > 0)
        INLAY_TRY(create_variants(context, diag));
    *out_context = context;
    context = NULL;
done:
    inlay_context_destroy(context);
    return status;
}

/* Keeps a context and its session allocated for ever, because a hung device may still access its memory, or because a
 * child of fork() cannot use them. */
static void abandon(inlay_context *context)
{
    static inlay_context *abandoned;

    context->session->abandoned = true;
    context->next = __atomic_load_n(&abandoned, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&abandoned, &context->next, context, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void inlay_context_destroy(inlay_context *context)
{
    if (context == NULL)
        return;
    if (session_check_process(context->session, NULL) != INLAY_OK) {
        abandon(context);
        return;
    }
    context_end_async(context);
    for (uint32_t i = 1; context->ladder != NULL && i < context->ladder->count; i++)
        inlay_context_destroy(context->ladder->contexts[i]);
    ladder_destroy(context->ladder);
    context->ladder = NULL;
    if (context->shared.hang.abandoned || session_device_hangs(context->session)) {
        abandon(context);
        return;
    }
    session_remove_context(context->session, &context->entry);
    runner_destroy(context->runner);
    run_states_destroy(context->states);
    context_drop_rows(context);
    for (uint32_t i = 0; context->inputs != NULL && i < inlay_session_input_count(context->session); i++)
        inlay_value_unref(context->inputs[i]);
    context_free_defaults(context->defaults, inlay_session_input_count(context->session));
    for (uint32_t i = 0; context->bound_outputs != NULL && i < inlay_session_output_count(context->session); i++)
        inlay_value_unref(context->bound_outputs[i]);
    run_shared_deinit(&context->shared);
    session_version_give(context->session, context->version);
    free(context->inputs);
    free(context->in);
    free(context->bound_outputs);
    free(context->ready);
    free(context);
}

/* Checks that the session has opened the device of the value. */
static inlay_status check_device(const inlay_session *session, const inlay_value *value, inlay_diag *diag)
{
    const uint32_t domain =
        value != NULL && value->kind == INLAY_KIND_TENSOR ? value->buffer.domain : INLAY_DOMAIN_HOST;

    for (uint32_t i = 0; i < session->env.provider_count; i++)
        if (domain != INLAY_DOMAIN_HOST &&
            domain - session->providers[i].first_domain < session->providers[i].table->domain_count)
            return INLAY_OK;
    return domain == INLAY_DOMAIN_HOST ? INLAY_OK
                                       : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                                    "the value is on a device (%s) that the session has not "
                                                    "opened: create the value with this session",
                                                    inlay_value_device(value));
}

/* Option ladder: binds the value in the contexts of the other variants by `set`; if one refuses it, binds `old` there
 * again. */
static inlay_status set_in_variants(inlay_context *context, uint32_t index, inlay_value *value, inlay_value *old,
                                    inlay_status (*set)(inlay_context *, uint32_t, inlay_value *, inlay_diag *),
                                    inlay_diag *diag)
{
    const uint32_t count = context->ladder != NULL ? context->ladder->count : 0;
    inlay_status status = INLAY_OK;
    uint32_t done = 1;

    while (done < count && (status = set(context->ladder->contexts[done], index, value, diag)) == INLAY_OK)
        done++;
    while (status != INLAY_OK && --done > 0)
        (void)set(context->ladder->contexts[done], index, old, NULL);
    return status;
}

inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *session = context->session;
    inlay_status status;

    if (index >= inlay_session_input_count(session))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u of a model with %u inputs", index,
                          inlay_session_input_count(session));
    if (value != NULL && session_input_fits(session, index, value, diag) != INLAY_OK)
        return INLAY_SHAPE_MISMATCH;
    if (check_device(session, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    status = set_in_variants(context, index, value, context->inputs[index], inlay_context_set_input, diag);
    if (status != INLAY_OK)
        return status;
    inlay_value_ref(value);
    inlay_value_unref(context->inputs[index]);
    context->inputs[index] = value;
    return INLAY_OK;
}

inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *session = context->session;
    inlay_status status;

    if (index >= inlay_session_output_count(session))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output %u of a model with %u outputs", index,
                          inlay_session_output_count(session));
    if (value != NULL &&
        (value->kind != INLAY_KIND_TENSOR || value->dtype == INLAY_STRING ||
         (session->outputs[index].dtype != INLAY_UNDEFINED && session->outputs[index].dtype != value->dtype)))
        return session_misfit(&session->outputs[index], value, "output", diag);
    if (check_device(session, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    status = set_in_variants(context, index, value, context->bound_outputs[index], inlay_context_set_output, diag);
    if (status != INLAY_OK)
        return status;
    inlay_value_ref(value);
    inlay_value_unref(context->bound_outputs[index]);
    context->bound_outputs[index] = value;
    context->runner->out.wanted[index] = value;
    return INLAY_OK;
}
