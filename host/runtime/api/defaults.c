/* api/defaults.c - the values of inputs that the caller does not bind. */
#include "api/context.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* Creates the default of an input that is also an initializer (since IR 4). The value borrows the data of the file if
 * they are aligned. */
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

/* Creates the value of an input that no operator reads, unless its shape depends on that of other inputs. */
static inlay_status make_unread(const inlay_value_info *info, inlay_value **out_value, inlay_diag *diag)
{
    int64_t dims[INLAY_MAX_RANK];

    if (info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_UNDEFINED || info->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    for (uint32_t d = 0; d < info->rank; d++) {
        if (info->dims[d].kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        dims[d] = info->dims[d].value;
    }
    return value_create(info->dtype, info->rank, dims, true, out_value, diag);
}

static inlay_status make_defaults(const struct program *program, inlay_value **list, inlay_diag *diag)
{
    const struct graph *graph = program->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->input_count && status == INLAY_OK; i++) {
        const graph_value *value = &graph->values[graph->inputs[i]];

        status = make_default(value, &list[i], diag);
        if (status == INLAY_OK && list[i] == NULL && program->uses.last[graph->inputs[i]] == INLAY_NONE)
            status = make_unread(&value->info, &list[i], diag);
    }
    return status;
}

void context_free_defaults(inlay_value **list, uint32_t count)
{
    for (uint32_t i = 0; list != NULL && i < count; i++)
        inlay_value_unref(list[i]);
    free(list);
}

inlay_status context_make_defaults(inlay_context *context, const struct program *program, inlay_diag *diag)
{
    const uint32_t count = inlay_session_input_count(context->session);
    inlay_value **list = calloc((size_t)count + 1, sizeof(inlay_value *));
    const inlay_status status =
        list == NULL ? no_memory(diag, "for a run context") : make_defaults(program, list, diag);

    if (status != INLAY_OK) {
        context_free_defaults(list, count);
        return status;
    }
    context_free_defaults(context->defaults, count);
    context->defaults = list;
    return INLAY_OK;
}
