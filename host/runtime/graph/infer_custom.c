/* graph/infer_custom.c - shape inference of operators that plugins define. */
#include "graph/infer.h"

typedef struct custom_call {
    op_infer *infer;
    bool reported; /* the last set_output failed with a message */
} custom_call;

static inlay_status checked_set_output(op_infer *infer, uint32_t output, inlay_dtype dtype, uint32_t rank,
                                       const inlay_dim *dims)
{
    inlay_dim checked[INLAY_MAX_RANK];

    if (output >= infer->out_count)
        return infer_fail(infer, INLAY_INVALID_ARGUMENT, "its shape inference sets output %u of %u", output,
                          infer->out_count);
    if (dtype != INLAY_UNDEFINED && inlay_dtype_bits(dtype) == 0)
        return infer_fail(infer, INLAY_INVALID_ARGUMENT, "its shape inference gives output %u the type number %d",
                          output, (int)dtype);
    if (rank != INLAY_RANK_UNKNOWN && (rank > INLAY_MAX_RANK || (rank > 0 && dims == NULL)))
        return infer_fail(infer, INLAY_INVALID_ARGUMENT, "its shape inference gives output %u the rank %u", output,
                          rank);
    for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank; d++) {
        checked[d] = dims[d];
        if (dims[d].kind == INLAY_DIM_SYMBOLIC && dims[d].symbol != 0 && dims[d].symbol < UINT32_MAX)
            checked[d].value = -1;
        else if (dims[d].kind != INLAY_DIM_FIXED)
            checked[d] = dim_unknown();
        if (checked[d].kind == INLAY_DIM_SYMBOLIC && infer->symbol_name(infer->ctx, checked[d].symbol) == NULL)
            return infer_fail(infer, INLAY_INVALID_ARGUMENT, "its shape inference uses a symbol that does not exist");
    }
    if (dtype != INLAY_UNDEFINED)
        infer_set_dtype(infer, output, dtype);
    return infer_set_shape(infer, output, rank, checked);
}

static inlay_status custom_set_output(void *ctx, uint32_t output, inlay_dtype dtype, uint32_t rank,
                                      const inlay_dim *dims)
{
    custom_call *call = ctx;
    inlay_status status = checked_set_output(call->infer, output, dtype, rank, dims);

    call->reported = status != INLAY_OK;
    return status;
}

static uint32_t custom_symbol(void *ctx, const char *name)
{
    const op_infer *infer = ((custom_call *)ctx)->infer;

    return name == NULL ? 0 : infer->symbol(infer->ctx, name);
}

inlay_status infer_custom(op_infer *infer, const inlay_operator *op)
{
    custom_call call = { .infer = infer };
    inlay_infer args = { .struct_size = sizeof args,
                         .ctx = &call,
                         .node = infer->node,
                         .inputs = infer->in,
                         .input_count = infer->in_count,
                         .output_count = infer->out_count,
                         .node_bytes = sizeof *infer->node,
                         .value_bytes = sizeof **infer->in,
                         .set_output = custom_set_output,
                         .symbol = custom_symbol };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (!INLAY_HAS(op, infer) || op->infer == NULL)
        return INLAY_OK;
    why.text[0] = '\0';
    status = op->infer(op->ctx, &args, &why);
    if (status == INLAY_OK || (call.reported && why.text[0] == '\0'))
        return status;
    why.text[sizeof why.text - 1] = '\0';
    return infer_fail(infer, status, "%s", why.text[0] != '\0' ? why.text : inlay_status_text(status));
}
