/* EyeLike: ONNX 9, 22. Ones on a diagonal of a matrix; a positive diagonal is above the main one. */
#include "operators/elementwise.h"
#include "operators/work.h"
#include <stdlib.h>

static inlay_status prepare_eye_like(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *diagonal = malloc(sizeof *diagonal);

    *out_state = diagonal;
    if (diagonal == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    *diagonal = kit_attr_int(node->info, "k", 0);
    return INLAY_OK;
}

static inlay_status run_eye_like(const kit_call *call)
{
    const int64_t diagonal = *(const int64_t *)call->state, one = 1;
    const kit_tensor *output = &call->out[0];
    int64_t rows = output->dims[0], columns = output->dims[1];

    memset(output->data, 0, kit_bytes(output->dtype, output->count));
    if (diagonal <= -rows || diagonal >= columns) /* the diagonal is outside */
        return INLAY_OK;
    for (int64_t row = diagonal < 0 ? -diagonal : 0; row < rows && row + diagonal < columns; row++)
        convert_from_i64(output->dtype, output->data, row * columns + row + diagonal, 1, &one, 0);
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "EyeLike", .prepare = prepare_eye_like, .cost = work_cost_of_stream, .run = run_eye_like },
};
const kit_table reference_eye_like = { kernels, KIT_COUNT(kernels) };
