/* api/state_api.c - inlay.h: states that a context keeps between runs. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "inlay/check.h"

uint32_t inlay_session_state_count(const inlay_session *session)
{
    return session->env.state_count;
}

inlay_status inlay_session_state(const inlay_session *session, uint32_t index, inlay_state_info *out_info)
{
    inlay_state_info info = { .struct_size = sizeof info };

    if (index >= session->env.state_count)
        return INLAY_NOT_FOUND;
    info.input = session->env.states[index].input;
    info.output = session->env.states[index].output;
    info.axis = session->env.states[index].axis;
    session_background_wait(session);
    session_hold(session);
    info.in_place = session->main->state_steps[index] != INLAY_NONE;
    session_unhold(session);
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_context_keep_states(inlay_context *context, uint64_t rows, inlay_diag *diag)
{
    run_states *states;
    inlay_status status;

    if (context->session->env.state_count == 0)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "the model has no known states; option state declares outputs that are inputs "
                          "of the next run, INPUT=OUTPUT");
    if (context->ladder != NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "a context of a session with option ladder keeps no states: each variant has its own");
    if (rows > UINT32_MAX / 2)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a state cannot have %llu rows", (unsigned long long)rows);
    status = run_states_create(context->runner->prog, context->session->limits.memory, rows, &states, diag);
    if (status != INLAY_OK)
        return status;
    run_states_destroy(context->states);
    context->states = states;
    context_drop_rows(context);
    return INLAY_OK;
}

static inlay_status check_kept(const inlay_context *context, uint32_t index, inlay_diag *diag)
{
    if (context->states == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context keeps no states; call inlay_context_keep_states first");
    INLAY_CHECK(context->session->env.state_count > 0);
    if (index != 0 && index >= context->session->env.state_count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "state %u of a model with %u states", index,
                          context->session->env.state_count);
    return INLAY_OK;
}

/* For functions that would change the lengths of rows. */
static inlay_status check_changeable(const inlay_context *context, uint32_t index, inlay_diag *diag)
{
    const inlay_status status = check_kept(context, index, diag);

    if (status == INLAY_OK && context->rows.info.struct_size != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context keeps rows; change them with inlay_context_set_rows");
    return status;
}

int64_t inlay_context_state_length(const inlay_context *context)
{
    return context->states == NULL ? 0 : run_states_length(context->states);
}

inlay_status inlay_context_state_rewind(inlay_context *context, int64_t length, inlay_diag *diag)
{
    inlay_status status = check_changeable(context, 0, diag);

    return status == INLAY_OK ? run_states_rewind(context->states, length, diag) : status;
}

inlay_status inlay_context_state_fork(inlay_context *context, const inlay_context *from, inlay_diag *diag)
{
    inlay_status status = check_changeable(context, 0, diag);

    if (status == INLAY_OK)
        status = check_kept(from, 0, diag);
    if (status == INLAY_OK && context->session != from->session)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the contexts belong to different sessions");
    return status == INLAY_OK ? run_states_fork(context->states, from->states, diag) : status;
}

inlay_status inlay_context_state_get(const inlay_context *context, uint32_t index, inlay_value **out_value,
                                     inlay_diag *diag)
{
    inlay_status status = check_kept(context, index, diag);

    *out_value = NULL;
    return status == INLAY_OK ? run_states_get(context->states, index, out_value, diag) : status;
}

inlay_status inlay_context_state_set(inlay_context *context, uint32_t index, const inlay_value *value, inlay_diag *diag)
{
    inlay_status status = check_changeable(context, index, diag);

    if (status == INLAY_OK && value->kind == INLAY_KIND_TENSOR && value->buffer.domain != INLAY_DOMAIN_HOST)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "a state is set from host memory; see inlay_value_copy()");
    if (status == INLAY_OK)
        status = session_input_fits(context->session, context->session->env.states[index].input, value, diag);
    return status == INLAY_OK ? run_states_set(context->states, index, value, diag) : status;
}
