/* onnx/where.c - selection by a condition, broadcast. */
#include "schema.h"
#include "inlay/check.h"

/* The elements of the condition, as 0 and 1; NULL if they are not known. */
static const inlay_dim *condition_elements(op_infer *infer, inlay_dim *room, uint32_t *out_count)
{
    const inlay_value_info *info = infer->in[0];
    const unsigned char *data = info->data;

    *out_count = 0;
    if (info->elements != NULL)
        return infer_elements(infer, 0, out_count);
    if (data == NULL || info->dtype != INLAY_BOOL || info->data_bytes > INFER_MAX_ELEMENTS)
        return NULL;
    for (uint64_t i = 0; i < info->data_bytes; i++)
        room[i] = dim_fixed(data[i] != 0);
    *out_count = (uint32_t)info->data_bytes;
    return room;
}

static inlay_status infer_where(op_infer *infer)
{
    inlay_dim room[INFER_MAX_ELEMENTS], elements[INFER_MAX_ELEMENTS];
    uint32_t count[3], n = 0;
    const inlay_dim *in[3];
    inlay_status status = infer_broadcast_all(infer);

    if (status != INLAY_OK || infer_rank(infer, 0) > 1 || infer_rank(infer, 1) > 1 || infer_rank(infer, 2) > 1)
        return status;
    in[0] = condition_elements(infer, room, &count[0]);
    in[1] = infer_elements(infer, 1, &count[1]);
    in[2] = infer_elements(infer, 2, &count[2]);
    for (int k = 0; k < 3; k++) {
        if (in[k] == NULL || count[k] == 0)
            return INLAY_OK;
        n = count[k] > n ? count[k] : n;
    }
    for (int k = 0; k < 3; k++)
        if (count[k] != n && count[k] != 1)
            return INLAY_OK;
    INLAY_CHECK(n > 0 && n <= INFER_MAX_ELEMENTS);
    for (uint32_t i = 0; i < n; i++) {
        inlay_dim choice = in[0][count[0] == 1 ? 0 : i], x = in[1][count[1] == 1 ? 0 : i],
                  y = in[2][count[2] == 1 ? 0 : i];

        if (choice.kind == INLAY_DIM_FIXED)
            elements[i] = choice.value != 0 ? x : y;
        else
            elements[i] = dim_same(x, y) ? x : dim_unknown();
    }
    return infer_set_elements(infer, 0, n, elements);
}

static const op_row onnx_where_rows[] = {
    { "Where", 9, 0, "condition:B, X:T, Y:T -> output:T; B=bool, T=@all", infer_where },
    { "Where", 16, 0, "condition:B, X:T, Y:T -> output:T; B=bool, T=@all_ir4", infer_where },
};

const op_table op_onnx_where = { "ai.onnx", onnx_where_rows, OP_COUNT(onnx_where_rows) };
