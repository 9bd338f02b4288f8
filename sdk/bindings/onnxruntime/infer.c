/* Shape inference of custom operators by functions of the program, before the run. */
#include "custom.h"
#include <stdlib.h>
#include <string.h>

bool ort_custom_infers(const OrtCustomOp *op)
{
    return op->version >= 17 && op->InferOutputShapeFn != NULL;
}

inlay_status ort_custom_infer(void *op_, inlay_infer *infer, inlay_diag *diag)
{
    const OrtCustomOp *op = op_;
    OrtShapeInferContext context = { .infer = infer };
    inlay_status status = INLAY_OK;
    OrtStatus *failed;

    if (!ort_custom_infers(op))
        return INLAY_OK; /* the run determines the shapes */
    context.shapes = calloc((size_t)infer->input_count + 1, sizeof(OrtTensorTypeAndShapeInfo *));
    context.attrs = calloc((size_t)infer->node->attr_count + 1, sizeof(OrtOpAttr *));
    if (context.shapes == NULL || context.attrs == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to infer shapes");
        goto done;
    }
    failed = op->InferOutputShapeFn(op, &context);
    if (failed != NULL) {
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL, "shape inference of %s: %s", infer->node->op_type.data, failed->text);
        ort_ReleaseStatus(failed);
    }
done:
    for (uint32_t i = 0; context.shapes != NULL && i < infer->input_count; i++)
        ort_ReleaseTensorTypeAndShapeInfo(context.shapes[i]);
    for (uint32_t i = 0; context.attrs != NULL && i < infer->node->attr_count; i++)
        ort_ReleaseOpAttr(context.attrs[i]);
    free(context.shapes);
    free(context.attrs);
    return status;
}

ORT_GETTER(ort_ShapeInferContext_GetInputCount, const OrtShapeInferContext *, context, size_t, out,
           context->infer->input_count)

/* The context owns the result. */
OrtStatus *ort_ShapeInferContext_GetInputTypeShape(const OrtShapeInferContext *context, size_t index,
                                                   OrtTensorTypeAndShapeInfo **info)
{
    const inlay_value_info *value;
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank;

    ORT_NEED(context);
    ORT_NEED(info);
    *info = NULL;
    if (index >= context->infer->input_count || context->infer->inputs[index] == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Failed to get type shape info for the index %zu", index);
    value = context->infer->inputs[index];
    rank = value->rank == INLAY_RANK_UNKNOWN ? 0 : value->rank;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = value->dims[d].kind == INLAY_DIM_FIXED ? value->dims[d].value : -1;
    if (context->shapes[index] == NULL)
        context->shapes[index] =
            ort_shape_new(ort_type_of(value->dtype), value->rank != INLAY_RANK_UNKNOWN, rank, dims, NULL);
    *info = context->shapes[index];
    return *info != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_ShapeInferContext_GetAttribute(const OrtShapeInferContext *context, const char *attr_name,
                                              const OrtOpAttr **attr)
{
    const inlay_node_info *node;

    ORT_NEED(context);
    ORT_NEED(attr_name);
    ORT_NEED(attr);
    *attr = NULL;
    node = context->infer->node;
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        if (strcmp(attribute->name.data, attr_name) != 0)
            continue;
        if (context->attrs[i] == NULL)
            context->attrs[i] = ort_attr_copy(attribute);
        *attr = context->attrs[i];
        return *attr != NULL ? NULL : ort_no_memory();
    }
    return ort_fail(ORT_INVALID_ARGUMENT, "%s does not exist", attr_name);
}

OrtStatus *ort_ShapeInferContext_SetOutputTypeShape(const OrtShapeInferContext *context, size_t index,
                                                    const OrtTensorTypeAndShapeInfo *info)
{
    inlay_dim dims[INLAY_MAX_RANK];
    const inlay_infer *infer;
    uint32_t rank;

    ORT_NEED(context);
    ORT_NEED(info);
    infer = context->infer;
    if (index >= infer->output_count || info->rank > INLAY_MAX_RANK)
        return ort_fail(ORT_INVALID_ARGUMENT, "output %zu of %u, of rank %zu", index, infer->output_count, info->rank);
    for (size_t d = 0; d < info->rank; d++) {
        dims[d] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
        if (info->dims[d] >= 0)
            dims[d] = (inlay_dim){ .value = info->dims[d], .kind = INLAY_DIM_FIXED };
        else if (ort_shape_name(info, d)[0] != '\0')
            dims[d] = (inlay_dim){ .value = -1,
                                   .kind = INLAY_DIM_SYMBOLIC,
                                   .symbol = infer->symbol(infer->ctx, ort_shape_name(info, d)) };
    }
    rank = info->has_shape ? (uint32_t)info->rank : INLAY_RANK_UNKNOWN;
    if (infer->set_output(infer->ctx, (uint32_t)index, ort_dtype(info->type), rank, dims) != INLAY_OK)
        return ort_fail(ORT_FAIL, "the shape of output %zu does not fit", index);
    return NULL;
}
