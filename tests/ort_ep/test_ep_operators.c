/* Custom operators of the library test_ep: Twice has a kernel; Product, which the library fuses, has none. */
#include "test_ep.h"
#include <string.h>

OrtCustomOpDomain *own_domain;

static const char *twice_name(const OrtCustomOp *op)
{
    (void)op;
    return "Twice";
}

static const char *product_name(const OrtCustomOp *op)
{
    (void)op;
    return "Product";
}

static const char *provider_type(const OrtCustomOp *op)
{
    (void)op;
    return EP_NAME;
}

static ONNXTensorElementDataType float_type(const OrtCustomOp *op, size_t index)
{
    (void)op, (void)index;
    return FLOAT;
}

static size_t one(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}

static size_t two(const OrtCustomOp *op)
{
    (void)op;
    return 2;
}

static OrtStatus *same_shape(const OrtCustomOp *op, OrtShapeInferContext *context)
{
    OrtTensorTypeAndShapeInfo *shape = NULL;

    (void)op;
    TRY(api->ShapeInferContext_GetInputTypeShape(context, 0, &shape));
    return api->ShapeInferContext_SetOutputTypeShape(context, 0, shape);
}

/* The kernel of Twice has no state. */
static OrtStatus *create_kernel(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info, void **out)
{
    static int nothing;
    char name[16];
    size_t bytes = sizeof name;

    (void)op;
    TRY(api->KernelInfo_GetOperatorType(info, name, &bytes));
    if ((const void *)table != (const void *)api || strcmp(name, "Twice") != 0)
        return api->CreateStatus(ORT_EP_FAIL, "a kernel of another operator");
    *out = &nothing;
    return NULL;
}

static OrtStatus *run_kernel(void *kernel, OrtKernelContext *context)
{
    const OrtValue *input = NULL;
    OrtValue *output = NULL;
    const void *from = NULL;
    size_t count, rank;
    int64_t dims[8];
    void *to = NULL;

    (void)kernel;
    TRY(check_stream(context));
    TRY(api->KernelContext_GetInput(context, 0, &input));
    TRY(count_of(input, &count, dims, &rank));
    TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
    TRY(api->GetTensorData(input, &from));
    TRY(api->GetTensorMutableData(output, &to));
    TRY(check_memory(input, from, count));
    for (size_t i = 0; i < count; i++)
        ((float *)to)[i] = 2 * ((const float *)from)[i];
    return NULL;
}

static void destroy_kernel(void *kernel)
{
    (void)kernel;
}

static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t index)
{
    (void)op, (void)index;
    return ORT_REQUIRED;
}

static OrtMemType memory_type(const OrtCustomOp *op, size_t index)
{
    (void)op, (void)index;
    return ORT_MEM_DEFAULT;
}

OrtStatus *create_own_domain(void)
{
    static OrtCustomOp twice = { .version = 17,
                                 .GetName = twice_name,
                                 .GetExecutionProviderType = provider_type,
                                 .GetInputType = float_type,
                                 .GetInputTypeCount = one,
                                 .GetOutputType = float_type,
                                 .GetOutputTypeCount = one,
                                 .KernelDestroy = destroy_kernel,
                                 .GetInputCharacteristic = required,
                                 .GetOutputCharacteristic = required,
                                 .GetInputMemoryType = memory_type,
                                 .CreateKernelV2 = create_kernel,
                                 .KernelComputeV2 = run_kernel,
                                 .InferOutputShapeFn = same_shape };
    static OrtCustomOp product;

    product = twice;
    product.GetName = product_name;
    product.GetInputTypeCount = two;
    TRY(api->CreateCustomOpDomain(OWN_DOMAIN, &own_domain));
    TRY(api->CustomOpDomain_Add(own_domain, &twice));
    return api->CustomOpDomain_Add(own_domain, &product);
}

OrtStatus *count_domains(OrtEpFactory *self, size_t *out)
{
    (void)self;
    *out = 1;
    return NULL;
}

OrtStatus *get_domains(OrtEpFactory *self, OrtCustomOpDomain **out, size_t count)
{
    (void)self;
    if (count != 1)
        return api->CreateStatus(ORT_EP_FAIL, "another number of domains");
    out[0] = own_domain;
    return NULL;
}
