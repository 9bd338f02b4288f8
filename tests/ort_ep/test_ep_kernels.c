/* Registered kernels of the library test_ep: of Neg; of Equal, which packs a constant input and has a type constraint
 * of its output; and of If, which only the runtime can make. */
#include "test_ep.h"
#include <stdlib.h>
#include <string.h>

typedef struct neg_kernel {
    OrtKernelImpl base;
    const test_ep *ep;
} neg_kernel;

static OrtStatus *run_neg(OrtKernelImpl *self, OrtKernelContext *context)
{
    const test_ep *ep = ((const neg_kernel *)(const void *)self)->ep;
    const OrtValue *input = NULL;
    OrtValue *output = NULL;
    const void *from = NULL;
    size_t count, rank;
    int64_t dims[8];
    void *to = NULL;

    if (ep->fail)
        return api->CreateStatus(ORT_EP_FAIL, "the device is on fire");
    TRY(check_stream(context));
    TRY(note_run(ep));
    TRY(api->KernelContext_GetInput(context, 0, &input));
    TRY(count_of(input, &count, dims, &rank));
    TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
    TRY(api->GetTensorData(input, &from));
    TRY(api->GetTensorMutableData(output, &to));
    TRY(check_memory(input, from, count));
    for (size_t i = 0; i < count; i++)
        ((float *)to)[i] = -((const float *)from)[i];
    if (count > 0 && strcmp(ep->fault, "Neg") == 0)
        ((float *)to)[0] += 1;
    return NULL;
}

static void release_kernel(OrtKernelImpl *self)
{
    free(self);
}

static OrtStatus *create_neg(void *state, const OrtKernelInfo *info, OrtKernelImpl **out)
{
    const OrtEp *ep = NULL;
    neg_kernel *kernel;
    char op_type[16];
    size_t bytes = sizeof op_type;

    (void)state;
    TRY(api->KernelInfo_GetOperatorType(info, op_type, &bytes));
    TRY(ep_api->KernelInfo_GetEp(info, &ep));
    if (strcmp(op_type, "Neg") != 0 || strcmp(ep->GetName(ep), EP_NAME) != 0)
        return api->CreateStatus(ORT_EP_FAIL, "the kernel's node is another one");
    kernel = calloc(1, sizeof *kernel);
    kernel->base =
        (OrtKernelImpl){ .ort_version_supported = ORT_VERSION_MINOR, .Compute = run_neg, .Release = release_kernel };
    kernel->ep = (const test_ep *)(const void *)ep;
    *out = &kernel->base;
    return NULL;
}

static OrtStatus *define_neg(OrtKernelDefBuilder *builder, OrtKernelDef **out)
{
    const OrtDataType *floats = NULL;

    TRY(ep_api->GetTensorDataType(FLOAT, &floats));
    TRY(ep_api->KernelDefBuilder_SetOperatorType(builder, "Neg"));
    TRY(ep_api->KernelDefBuilder_SetDomain(builder, ""));
    TRY(ep_api->KernelDefBuilder_SetSinceVersion(builder, 6, 13));
    TRY(ep_api->KernelDefBuilder_SetExecutionProvider(builder, EP_NAME));
    TRY(ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", &floats, 1));
    return ep_api->KernelDefBuilder_Build(builder, out);
}

typedef struct equal_kernel {
    OrtKernelImpl base;
    const test_ep *ep;
    float *packed; /* of input 1; NULL: it is no constant */
} equal_kernel;

static OrtStatus *pack_equal(OrtKernelImpl *self, const OrtValue *tensor, int input_index, OrtAllocator *allocator,
                             OrtSharedPrePackedWeightCache *cache, bool *is_packed)
{
    equal_kernel *kernel = (equal_kernel *)(void *)self;
    const void *data = NULL;
    int64_t dims[8];
    size_t count, rank;

    *is_packed = false;
    if (input_index != 1)
        return NULL;
    if (allocator == NULL || cache != NULL)
        return api->CreateStatus(ORT_EP_FAIL, "weights are shared, or there is no allocator");
    TRY(count_of(tensor, &count, dims, &rank));
    TRY(api->GetTensorData(tensor, &data));
    TRY(check_memory(tensor, data, count));
    kernel->packed = malloc((count + 1) * sizeof *kernel->packed);
    memcpy(kernel->packed, data, count * sizeof *kernel->packed);
    *is_packed = true;
    return NULL;
}

static OrtStatus *run_equal(OrtKernelImpl *self, OrtKernelContext *context)
{
    const equal_kernel *kernel = (const equal_kernel *)(const void *)self;
    const OrtValue *inputs[2] = { NULL };
    const void *from[2] = { NULL, kernel->packed };
    OrtValue *output = NULL;
    size_t count, rank;
    int64_t dims[8];
    void *to = NULL;

    TRY(note_run(kernel->ep));
    for (size_t i = 0; i < 2; i++)
        TRY(api->KernelContext_GetInput(context, i, &inputs[i]));
    if ((inputs[1] == NULL) != (kernel->packed != NULL))
        return api->CreateStatus(ORT_EP_FAIL, "a packed input is an input of runs, too");
    TRY(count_of(inputs[0], &count, dims, &rank));
    TRY(api->GetTensorData(inputs[0], &from[0]));
    if (inputs[1] != NULL)
        TRY(api->GetTensorData(inputs[1], &from[1]));
    TRY(check_memory(inputs[0], from[0], count));
    TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
    TRY(api->GetTensorMutableData(output, &to));
    if (ep_api->MemoryDevice_GetDeviceType(ep_api->Value_GetMemoryDevice(output)) != 0)
        return api->CreateStatus(ORT_EP_FAIL, "an output is not in host memory");
    for (size_t i = 0; i < count; i++)
        ((bool *)to)[i] = ((const float *)from[0])[i] == ((const float *)from[1])[i];
    return NULL;
}

static void release_equal(OrtKernelImpl *self)
{
    free(((equal_kernel *)(void *)self)->packed);
    free(self);
}

static OrtStatus *create_equal(void *state, const OrtKernelInfo *info, OrtKernelImpl **out)
{
    equal_kernel *kernel = calloc(1, sizeof *kernel);
    const OrtEp *ep = NULL;

    (void)state;
    kernel->base = (OrtKernelImpl){ .ort_version_supported = ORT_VERSION_MINOR,
                                    .Compute = run_equal,
                                    .Release = release_equal,
                                    .PrePackWeight = pack_equal };
    *out = &kernel->base;
    TRY(ep_api->KernelInfo_GetEp(info, &ep));
    kernel->ep = (const test_ep *)(const void *)ep;
    return NULL;
}

/* The inputs have constraint T, the output has constraint T1, and is in host memory. */
static OrtStatus *define_equal(OrtKernelDefBuilder *builder, OrtKernelDef **out)
{
    const OrtDataType *floats = NULL, *booleans = NULL;

    TRY(ep_api->GetTensorDataType(FLOAT, &floats));
    TRY(ep_api->GetTensorDataType(BOOL, &booleans));
    TRY(ep_api->KernelDefBuilder_SetOperatorType(builder, "Equal"));
    TRY(ep_api->KernelDefBuilder_SetDomain(builder, ""));
    TRY(ep_api->KernelDefBuilder_SetSinceVersion(builder, 11, 18));
    TRY(ep_api->KernelDefBuilder_SetExecutionProvider(builder, EP_NAME));
    TRY(ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", &floats, 1));
    TRY(ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T1", &booleans, 1));
    TRY(ep_api->KernelDefBuilder_SetOutputMemType(builder, 0, ORT_MEM_CPU_OUTPUT));
    return ep_api->KernelDefBuilder_Build(builder, out);
}

static OrtStatus *create_if(void *state, const OrtKernelInfo *info, OrtKernelImpl **out)
{
    (void)state;
    return ep_api->CreateIfKernel(info, out);
}

static OrtStatus *define_if(OrtKernelDefBuilder *builder, OrtKernelDef **out)
{
    const OrtDataType *booleans = NULL;

    TRY(ep_api->GetTensorDataType(BOOL, &booleans));
    TRY(ep_api->KernelDefBuilder_SetOperatorType(builder, "If"));
    TRY(ep_api->KernelDefBuilder_SetDomain(builder, ""));
    TRY(ep_api->KernelDefBuilder_SetSinceVersion(builder, 1, 24));
    TRY(ep_api->KernelDefBuilder_SetExecutionProvider(builder, EP_NAME));
    TRY(ep_api->KernelDefBuilder_AddTypeConstraint(builder, "B", &booleans, 1));
    return ep_api->KernelDefBuilder_Build(builder, out);
}

static OrtStatus *add(OrtKernelRegistry *registry, OrtStatus *(*define)(OrtKernelDefBuilder *, OrtKernelDef **),
                      OrtKernelCreateFunc create)
{
    OrtKernelDefBuilder *builder = NULL;
    OrtKernelDef *def = NULL;
    OrtStatus *failed = ep_api->CreateKernelDefBuilder(&builder);

    if (failed == NULL)
        failed = define(builder, &def);
    if (failed == NULL)
        failed = ep_api->KernelRegistry_AddKernel(registry, def, create, NULL);
    ep_api->ReleaseKernelDef(def);
    ep_api->ReleaseKernelDefBuilder(builder);
    return failed;
}

OrtStatus *register_kernels(OrtKernelRegistry **out)
{
    TRY(ep_api->CreateKernelRegistry(out));
    TRY(add(*out, define_neg, create_neg));
    TRY(add(*out, define_equal, create_equal));
    return add(*out, define_if, create_if);
}

static OrtStatus *check(bool ok, const char *what)
{
    return ok ? NULL : api->CreateStatus(ORT_EP_FAIL, what);
}

static OrtStatus *check_constraint(const OrtOpSchema *schema)
{
    const OrtOpSchemaTypeConstraint *data = NULL, *condition = NULL, *output = NULL, *first = NULL;
    const char *const *types = NULL;
    const size_t *indices = NULL;
    const char *name = NULL;
    size_t count = 0, floats = 0;

    TRY(ep_api->OpSchema_GetInputTypeConstraint(schema, 0, &condition));
    TRY(ep_api->OpSchema_GetInputTypeConstraint(schema, 1, &data));
    TRY(ep_api->OpSchema_GetOutputTypeConstraint(schema, 0, &output));
    TRY(check(data != NULL && data == output && data != condition, "Where: its data have one constraint"));
    TRY(ep_api->OpSchemaTypeConstraint_GetTypeParamName(data, &name));
    TRY(check(strcmp(name, "T") == 0, "Where: the constraint of its data has another name"));
    TRY(ep_api->OpSchemaTypeConstraint_GetAllowedTypes(data, &types, &count));
    for (size_t i = 0; i < count; i++)
        floats += strcmp(types[i], "tensor(float)") == 0;
    TRY(check(count > 10 && floats == 1, "Where: its data have other types"));
    TRY(ep_api->OpSchemaTypeConstraint_GetInputIndices(data, &indices, &count));
    TRY(check(count == 2 && indices[0] == 1 && indices[1] == 2, "Where: inputs 1 and 2 are its data"));
    TRY(ep_api->OpSchemaTypeConstraint_GetOutputIndices(data, &indices, &count));
    TRY(check(count == 1 && indices[0] == 0, "Where: output 0 has the type of its data"));
    TRY(ep_api->OpSchema_GetTypeConstraintCount(schema, &count));
    TRY(ep_api->OpSchema_GetTypeConstraint(schema, 0, &first));
    return check(count >= 1 && first != NULL, "Where: it has no constraints");
}

static OrtStatus *check_where(const OrtOpSchema *schema)
{
    const char *names[2] = { NULL };
    size_t inputs = 0, outputs = 0;
    OrtStatus *refused;
    int since = 0;

    TRY(ep_api->OpSchema_GetSinceVersion(schema, &since));
    TRY(ep_api->OpSchema_GetNumInputs(schema, &inputs));
    TRY(ep_api->OpSchema_GetNumOutputs(schema, &outputs));
    TRY(check(since == 16 && inputs == 3 && outputs == 1, "Where: another version, or number of inputs and outputs"));
    TRY(ep_api->OpSchema_GetInputName(schema, 0, &names[0]));
    TRY(ep_api->OpSchema_GetOutputName(schema, 0, &names[1]));
    TRY(check(strcmp(names[0], "condition") == 0 && strcmp(names[1], "output") == 0, "Where: it has other names"));
    refused = ep_api->OpSchema_GetInputName(schema, 3, &names[0]);
    TRY(check(refused != NULL && api->GetErrorCode(refused) == ORT_INVALID_ARGUMENT, "Where: it has an input 3"));
    api->ReleaseStatus(refused);
    return check_constraint(schema);
}

OrtStatus *check_schemas(void)
{
    OrtOpSchema *schema = NULL;
    OrtStatus *failed;

    TRY(ep_api->GetOpSchema("NoSuchOperator", 17, "", &schema));
    TRY(check(schema == NULL, "an operator that does not exist has a schema"));
    TRY(ep_api->GetOpSchema("Where", 17, "", &schema));
    TRY(check(schema != NULL, "Where has no schema"));
    failed = check_where(schema);
    ep_api->ReleaseOpSchema(schema);
    return failed;
}
