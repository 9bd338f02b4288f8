/* api/context_api.c - inlay.h: contexts, and the values that are bound to them. */
#include "api/context.h"
#include "base/memory.h"
#include "profile/profile.h"
#include <stdlib.h>
#include <string.h>

/* An input that is an initializer too has a default (IR 4). It is borrowed from the file where the file aligned it. */
static inlay_status make_default(const graph_value *value, inlay_value **out_value, inlay_diag *diag)
{
    const inlay_tensor_view *view = value->default_value;
    inlay_status status;

    if (view == NULL)
        return INLAY_OK;
    if ((uintptr_t)view->data % 16 == 0)
        return inlay_value_borrow(view->dtype, view->rank, view->dims, (void *)(uintptr_t)view->data, view->bytes,
                                  out_value, diag);
    status = value_create(view->dtype, view->rank, view->dims, false, out_value, diag);
    if (status == INLAY_OK && view->bytes > 0)
        memcpy(inlay_value_data(*out_value), view->data, (size_t)view->bytes);
    return status;
}

inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    inlay_context *context = calloc(1, sizeof *context);
    const struct graph *graph = session->model->main;

    *out_context = NULL;
    if (context == NULL)
        return no_memory(diag, "for a run context");
    status = session_here(session, diag);
    if (status != INLAY_OK) {
        free(context);
        return status;
    }
    if (run_shared_init(&context->shared, session->env.max_threads, session->env.max_run_bytes, session->memory) !=
        INLAY_OK) {
        free(context);
        return no_memory(diag, "for a run context");
    }
    context->session = session;
    context->inputs = calloc((size_t)graph->input_count + 1, sizeof(inlay_value *));
    context->in = calloc((size_t)graph->input_count + 1, sizeof *context->in);
    context->wanted = calloc((size_t)graph->output_count + 1, sizeof(inlay_value *));
    context->ready = calloc((size_t)graph->input_count + graph->output_count + 1, sizeof *context->ready);
    context->defaults = calloc((size_t)graph->input_count + 1, sizeof(inlay_value *));
    session_use_begin(session, &context->use);
    if (context->inputs == NULL || context->in == NULL || context->wanted == NULL || context->ready == NULL ||
        context->defaults == NULL) {
        status = no_memory(diag, "for a run context");
        goto done;
    }
    for (uint32_t i = 0; i < graph->input_count; i++)
        INLAY_TRY(make_default(&graph->values[graph->inputs[i]], &context->defaults[i], diag));
    INLAY_TRY(runner_create(session->main, &context->shared, &context->runner, diag));
    *out_context = context;
    context = NULL;
done:
    inlay_context_destroy(context);
    return status;
}

/* A device that hangs may still read and write what a context holds, so that and the session stay as they are. So they
 * do in a child of fork() that cannot use them. */
static void leave(inlay_context *context)
{
    static inlay_context *left;

    context->session->abandoned = true;
    context->next = __atomic_load_n(&left, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&left, &context->next, context, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void inlay_context_destroy(inlay_context *context)
{
    if (context == NULL)
        return;
    if (session_here(context->session, NULL) != INLAY_OK) {
        leave(context);
        return;
    }
    context_end_async(context);
    if (context->shared.hang.abandoned) {
        leave(context);
        return;
    }
    runner_destroy(context->runner);
    run_states_destroy(context->states);
    timings_destroy(context->timings);
    profile_destroy(context->profile);
    for (uint32_t i = 0; context->inputs != NULL && i < inlay_session_input_count(context->session); i++)
        inlay_value_unref(context->inputs[i]);
    for (uint32_t i = 0; context->defaults != NULL && i < inlay_session_input_count(context->session); i++)
        inlay_value_unref(context->defaults[i]);
    for (uint32_t i = 0; context->wanted != NULL && i < inlay_session_output_count(context->session); i++)
        inlay_value_unref(context->wanted[i]);
    run_shared_deinit(&context->shared);
    session_use_end(context->session, &context->use);
    free(context->inputs);
    free(context->in);
    free(context->wanted);
    free(context->ready);
    free(context->defaults);
    free(context);
}

/* "[N,3,224,224]" of what the model declares. */
static void describe_wanted(const inlay_io_info *info, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "%s[", inlay_dtype_name(info->dtype));

    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank && at < bytes; d++) {
        const char *name = info->dim_names[d][0] != '\0' ? info->dim_names[d] : "?";
        if (info->dims[d] >= 0)
            at += (size_t)snprintf(text + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)info->dims[d]);
        else
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", d > 0 ? "," : "", name);
    }
    if (at < bytes)
        (void)snprintf(text + at, bytes - at, info->rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
}

/* Does a tensor fit what the model declares? */
static bool fits(const inlay_io_info *info, const inlay_value *value)
{
    if (info->dtype != INLAY_UNDEFINED && info->dtype != value->dtype)
        return false;
    if (info->kind != value->kind)
        return info->kind == INLAY_KIND_OPTIONAL; /* a bare value stands for an optional that holds it */
    if (value->kind != INLAY_KIND_TENSOR)
        return true;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (info->rank != value->rank)
        return false;
    for (uint32_t d = 0; d < value->rank; d++)
        if (info->dims[d] >= 0 && info->dims[d] != value->dims[d])
            return false;
    return true;
}

static inlay_status misfit(const inlay_io_info *info, const inlay_value *value, const char *what, inlay_diag *diag)
{
    run_value view = run_value_of((inlay_value *)(uintptr_t)value);
    inlay_status code = INLAY_SHAPE_MISMATCH;
    char got[128], want[160];

    describe_wanted(info, want, sizeof want);
    (void)inlay_fail(diag, code, "%s '%s' is %s; the model wants %s%s", what, info->name,
                     run_value_describe(&view, got), info->kind == INLAY_KIND_SEQUENCE ? "a sequence of " : "", want);
    if (diag != NULL)
        (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", info->name);
    return code;
}

inlay_status context_input_fits(const inlay_context *context, uint32_t index, const inlay_value *value,
                                inlay_diag *diag)
{
    const inlay_io_info *info = &context->session->inputs[index];

    return fits(info, value) ? INLAY_OK : misfit(info, value, "input", diag);
}

/* A value on a device is of use to sessions that have the same device open. */
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
                                                    "the value lies on a device (%s) that the session does not have "
                                                    "open: make it by this session",
                                                    inlay_value_device(value));
}

inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *session = context->session;

    if (index >= inlay_session_input_count(session))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u of a model with %u inputs", index,
                          inlay_session_input_count(session));
    if (value != NULL && !fits(&session->inputs[index], value))
        return misfit(&session->inputs[index], value, "input", diag);
    if (check_device(session, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->inputs[index]);
    context->inputs[index] = value;
    return INLAY_OK;
}

inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *session = context->session;

    if (index >= inlay_session_output_count(session))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output %u of a model with %u outputs", index,
                          inlay_session_output_count(session));
    if (value != NULL &&
        (value->kind != INLAY_KIND_TENSOR || value->dtype == INLAY_STRING ||
         (session->outputs[index].dtype != INLAY_UNDEFINED && session->outputs[index].dtype != value->dtype)))
        return misfit(&session->outputs[index], value, "output", diag);
    if (check_device(session, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->wanted[index]);
    context->wanted[index] = value;
    context->runner->out.wanted[index] = value;
    return INLAY_OK;
}
