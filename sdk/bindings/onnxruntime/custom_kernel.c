/* Kernels of custom operators: of programs, and of the libraries of execution providers. */
#include "custom.h"

OrtStatus *ort_custom_kernel_create(const OrtCustomOp *op, const OrtKernelInfo *info, void **out)
{
    *out = NULL;
    if (op->version >= 16 && op->CreateKernelV2 != NULL)
        return op->CreateKernelV2(op, ort_table(), info, out);
    *out = op->CreateKernel(op, ort_table(), info);
    return NULL;
}

OrtStatus *ort_custom_kernel_run(const OrtCustomOp *op, void *kernel, OrtKernelContext *context)
{
    if (op->version >= 16 && op->KernelComputeV2 != NULL)
        return op->KernelComputeV2(kernel, context);
    op->KernelCompute(kernel, context);
    return NULL;
}

inlay_status ort_custom_check_counts(const OrtCustomOp *op, const inlay_node_info *node, inlay_diag *diag)
{
    size_t inputs = ort_custom_least(op, false), outputs = ort_custom_least(op, true);

    if (node->input_count < inputs || node->output_count < outputs)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the node has %u inputs and %u outputs, but its operator requires at least %zu and %zu",
                          node->input_count, node->output_count, inputs, outputs);
    return INLAY_OK;
}
