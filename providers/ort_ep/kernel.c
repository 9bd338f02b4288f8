/* The kernel of one node: a registered one, or that of a custom operator of the library. */
#include "ort_ep/provider.h"

inlay_status ep_single_create(ep_single *out, const ep_state *state, const OrtEpGraphSupportInfo *support,
                              const OrtNode *node, const OrtKernelInfo *info, inlay_diag *diag)
{
    OrtStatus *failed;
    inlay_status status;

    out->def = ep_kernel_find(support->registry, support->ep_name, node);
    if (out->def != NULL) {
        failed = ep_kernel_create(support->registry, out->def, info, &out->kernel);
    } else {
        out->op = ep_operator_find(state, node->info);
        if (out->op == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "execution provider %s has no kernel for the node", state->name);
        status = ort_custom_check_counts(out->op, node->info, diag);
        if (status != INLAY_OK)
            return status;
        failed = ort_custom_kernel_create(out->op, info, &out->custom);
    }
    return failed == NULL ? INLAY_OK : ep_fail(state, "creating a kernel", failed, INLAY_UNSUPPORTED, diag);
}

void ep_single_release(ep_single *single)
{
    ort_ReleaseKernelImpl(single->kernel);
    if (single->custom != NULL)
        single->op->KernelDestroy(single->custom);
    *single = (ep_single){ 0 };
}

OrtStatus *ep_single_run(const ep_single *single, OrtKernelContext *context)
{
    return single->kernel != NULL ? single->kernel->Compute(single->kernel, context)
                                  : ort_custom_kernel_run(single->op, single->custom, context);
}

/* Weights are not shared between kernels: the kernel keeps what it packs. */
OrtStatus *ep_single_pack(const ep_single *single, size_t input, const OrtValue *tensor, OrtAllocator *allocator,
                          bool *packed)
{
    OrtKernelImpl *kernel = single->kernel;

    *packed = false;
    return kernel != NULL && EP_SINCE(kernel, 24) && kernel->PrePackWeight != NULL
               ? kernel->PrePackWeight(kernel, tensor, (int)input, allocator, NULL, packed)
               : NULL;
}

bool ep_is_on_host(const OrtKernelDef *def, const OrtCustomOp *op, size_t index, bool is_output)
{
    OrtMemType type = ORT_MEM_DEFAULT;

    if (def != NULL)
        ort_ReleaseStatus(is_output ? ort_KernelDef_GetOutputMemType(def, index, &type)
                                    : ort_KernelDef_GetInputMemType(def, index, &type));
    else if (op != NULL && !is_output && op->version >= 13 && op->GetInputMemoryType != NULL)
        type = op->GetInputMemoryType(op, index);
    return type != ORT_MEM_DEFAULT;
}
