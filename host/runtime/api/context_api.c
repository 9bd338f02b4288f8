/* api/context_api.c - inlay.h: contexts, and the values that are bound to them. */
#include "api/context.h"
#include "base/memory.h"
#include "profile/profile.h"
#include <stdlib.h>
#include <string.h>

/* An input that is an initializer too has a default (IR 4). It is borrowed from the file where the file aligned it. */
static inlay_status make_default(const graph_value *v, inlay_value **out_value, inlay_diag *diag)
{
    const inlay_tensor_view *t = v->default_value;
    inlay_status status;

    if (t == NULL)
        return INLAY_OK;
    if ((uintptr_t)t->data % 16 == 0)
        return inlay_value_borrow(t->dtype, t->rank, t->dims, (void *)(uintptr_t)t->data, t->bytes, out_value, diag);
    status = value_create(t->dtype, t->rank, t->dims, false, out_value, diag);
    if (status == INLAY_OK && t->bytes > 0)
        memcpy(inlay_value_data(*out_value), t->data, (size_t)t->bytes);
    return status;
}

inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    inlay_context *c = calloc(1, sizeof *c);
    const struct graph *g = session->model->main;

    *out_context = NULL;
    if (c == NULL)
        return no_memory(diag, "for a run context");
    status = session_here(session, diag);
    if (status != INLAY_OK) {
        free(c);
        return status;
    }
    if (run_shared_init(&c->shared, session->env.max_threads, session->env.max_run_bytes, session->memory) !=
        INLAY_OK) {
        free(c);
        return no_memory(diag, "for a run context");
    }
    c->session = session;
    c->inputs = calloc((size_t)g->input_count + 1, sizeof(inlay_value *));
    c->in = calloc((size_t)g->input_count + 1, sizeof *c->in);
    c->wanted = calloc((size_t)g->output_count + 1, sizeof(inlay_value *));
    c->ready = calloc((size_t)g->input_count + g->output_count + 1, sizeof *c->ready);
    c->defaults = calloc((size_t)g->input_count + 1, sizeof(inlay_value *));
    session_use_begin(session, &c->use);
    if (c->inputs == NULL || c->in == NULL || c->wanted == NULL || c->ready == NULL || c->defaults == NULL) {
        status = no_memory(diag, "for a run context");
        goto done;
    }
    for (uint32_t i = 0; i < g->input_count; i++)
        INLAY_TRY(make_default(&g->values[g->inputs[i]], &c->defaults[i], diag));
    INLAY_TRY(runner_create(session->main, &c->shared, &c->runner, diag));
    *out_context = c;
    c = NULL;
done:
    inlay_context_destroy(c);
    return status;
}

/* A device that hangs may still read and write what a context holds, so that and the session stay as they are. So they
 * do in a child of fork() that cannot use them. */
static void leave(inlay_context *c)
{
    static inlay_context *left;

    c->session->abandoned = true;
    c->next = __atomic_load_n(&left, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&left, &c->next, c, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void inlay_context_destroy(inlay_context *c)
{
    if (c == NULL)
        return;
    if (session_here(c->session, NULL) != INLAY_OK) {
        leave(c);
        return;
    }
    context_end_async(c);
    if (c->shared.hang.abandoned) {
        leave(c);
        return;
    }
    runner_destroy(c->runner);
    run_states_destroy(c->states);
    timings_destroy(c->timings);
    profile_destroy(c->profile);
    for (uint32_t i = 0; c->inputs != NULL && i < inlay_session_input_count(c->session); i++)
        inlay_value_unref(c->inputs[i]);
    for (uint32_t i = 0; c->defaults != NULL && i < inlay_session_input_count(c->session); i++)
        inlay_value_unref(c->defaults[i]);
    for (uint32_t i = 0; c->wanted != NULL && i < inlay_session_output_count(c->session); i++)
        inlay_value_unref(c->wanted[i]);
    run_shared_deinit(&c->shared);
    session_use_end(c->session, &c->use);
    free(c->inputs);
    free(c->in);
    free(c->wanted);
    free(c->ready);
    free(c->defaults);
    free(c);
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
static bool fits(const inlay_io_info *info, const inlay_value *v)
{
    if (info->dtype != INLAY_UNDEFINED && info->dtype != v->dtype)
        return false;
    if (info->kind != v->kind)
        return info->kind == INLAY_KIND_OPTIONAL; /* a bare value stands for an optional that holds it */
    if (v->kind != INLAY_KIND_TENSOR)
        return true;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (info->rank != v->rank)
        return false;
    for (uint32_t d = 0; d < v->rank; d++)
        if (info->dims[d] >= 0 && info->dims[d] != v->dims[d])
            return false;
    return true;
}

static inlay_status misfit(const inlay_io_info *info, const inlay_value *v, const char *what, inlay_diag *diag)
{
    rt_value view = rt_from_value((inlay_value *)(uintptr_t)v);
    inlay_status code = INLAY_SHAPE_MISMATCH;
    char got[128], want[160];

    describe_wanted(info, want, sizeof want);
    (void)inlay_fail(diag, code, "%s '%s' is %s; the model wants %s%s", what, info->name, rt_describe(&view, got),
                     info->kind == INLAY_KIND_SEQUENCE ? "a sequence of " : "", want);
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
static inlay_status check_device(const inlay_session *s, const inlay_value *v, inlay_diag *diag)
{
    const uint32_t domain = v != NULL && v->kind == INLAY_KIND_TENSOR ? v->buffer.domain : INLAY_DOMAIN_HOST;

    for (uint32_t i = 0; i < s->env.provider_count; i++)
        if (domain != INLAY_DOMAIN_HOST && domain - s->providers[i].first_domain < s->providers[i].table->domain_count)
            return INLAY_OK;
    return domain == INLAY_DOMAIN_HOST ? INLAY_OK
                                       : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                                    "the value lies on a device (%s) that the session does not have "
                                                    "open: make it by this session",
                                                    inlay_value_device(v));
}

inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *s = context->session;

    if (index >= inlay_session_input_count(s))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u of a model with %u inputs", index,
                          inlay_session_input_count(s));
    if (value != NULL && !fits(&s->inputs[index], value))
        return misfit(&s->inputs[index], value, "input", diag);
    if (check_device(s, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->inputs[index]);
    context->inputs[index] = value;
    return INLAY_OK;
}

inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *s = context->session;

    if (index >= inlay_session_output_count(s))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output %u of a model with %u outputs", index,
                          inlay_session_output_count(s));
    if (value != NULL && (value->kind != INLAY_KIND_TENSOR || value->dtype == INLAY_STRING ||
                          (s->outputs[index].dtype != INLAY_UNDEFINED && s->outputs[index].dtype != value->dtype)))
        return misfit(&s->outputs[index], value, "output", diag);
    if (check_device(s, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->wanted[index]);
    context->wanted[index] = value;
    context->runner->out.wanted[index] = value;
    return INLAY_OK;
}
