/* A library of custom operators that programs load: Scale(x; by) -> x * by, through RegisterCustomOps. */
#include "types.h"
#include "custom_op.h"
#include <stdlib.h>

struct OrtApi {
#define ENTRY(state, returns, name, params) returns(*name) params;
#include "api.def"
#undef ENTRY
};
static const OrtApi *api;

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info, void **out)
{
    float *by = malloc(sizeof *by);

    (void)op, (void)table;
    *out = by;
    if (by == NULL)
        return api->CreateStatus(ORT_FAIL, "no memory");
    return api->KernelInfoGetAttribute_float(info, "by", by);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    const OrtValue *in = NULL;
    OrtValue *out = NULL;
    int64_t dims[8];
    size_t rank, count;
    void *from, *to;
    OrtStatus *status;

    if ((status = api->KernelContext_GetInput(context, 0, &in)) != NULL ||
        (status = api->GetTensorTypeAndShape(in, &info)) != NULL ||
        (status = api->GetDimensionsCount(info, &rank)) != NULL ||
        (status = api->GetDimensions(info, dims, rank)) != NULL ||
        (status = api->GetTensorShapeElementCount(info, &count)) != NULL ||
        (status = api->KernelContext_GetOutput(context, 0, dims, rank, &out)) != NULL ||
        (status = api->GetTensorMutableData((OrtValue *)(uintptr_t)in, &from)) != NULL ||
        (status = api->GetTensorMutableData(out, &to)) != NULL)
        return status;
    api->ReleaseTensorTypeAndShapeInfo(info);
    for (size_t i = 0; i < count; i++)
        ((float *)to)[i] = ((float *)from)[i] * *(float *)kernel;
    return NULL;
}

static const char *name(const OrtCustomOp *op)
{
    (void)op;
    return "Scale";
}

static const OrtCustomOp scale = {
    .version = 16,
    .GetName = name,
    CUSTOM_OP_COMMON,
    CUSTOM_OP_FLOATS,
    .KernelDestroy = free,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base)
{
    static OrtCustomOpDomain *domain;
    OrtStatus *status = NULL;

    api = base->GetApi(16);
    if (domain == NULL) { /* the library owns one domain for all sessions */
        status = api->CreateCustomOpDomain("test.library", &domain);
        if (status == NULL)
            status = api->CustomOpDomain_Add(domain, &scale);
    }
    return status != NULL ? status : api->AddCustomOpDomain(options, domain);
}
