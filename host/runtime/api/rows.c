/* api/rows.c - the rows of a context between its runs; rows_api.c changes them. */
#include "api/context.h"
#include <stdlib.h>

static void unbind(inlay_context *context)
{
    const inlay_rows_info *info = &context->rows.info;
    const uint32_t inputs[] = { info->tokens, info->mask, info->positions };

    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i] == INLAY_NONE)
            continue;
        inlay_value_unref(context->inputs[inputs[i]]);
        context->inputs[inputs[i]] = NULL;
    }
}

inlay_status context_check_rows(const inlay_context *context, inlay_diag *diag)
{
    const program_env *env = &context->session->env;

    if (context->rows.added == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context keeps rows; call inlay_context_set_tokens before each run");
    for (uint32_t k = 0; k < env->state_count; k++) /* a run would not add the tokens to this state */
        if (context->inputs[env->states[k].input] != NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the context keeps rows; leave input %u ('%s'), which is a state, unbound",
                              env->states[k].input, context->session->inputs[env->states[k].input].name);
    return INLAY_OK;
}

void context_end_rows(inlay_context *context, bool ran)
{
    context_rows *rows = &context->rows;

    for (uint32_t i = 0; ran && i < rows->count; i++)
        rows->lengths[i] += rows->added;
    rows->added = 0;
    unbind(context);
}

void context_drop_rows(inlay_context *context)
{
    if (context->rows.info.struct_size == 0)
        return;
    unbind(context); /* their memory is freed here */
    free(context->rows.lengths);
    free(context->rows.numbers);
    context->rows = (context_rows){ .count = 0 };
}
