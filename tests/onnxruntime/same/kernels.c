/* Custom operators of the program: the queries of their kernels, and the ONNX operators that they call. */
#include "same.h"

static const char *ORT_API_CALL name(const OrtCustomOp *op)
{
    (void)op;
    return "Sum2";
}
static const char *ORT_API_CALL provider(const OrtCustomOp *op)
{
    (void)op;
    return NULL;
}
static ONNXTensorElementDataType ORT_API_CALL type(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static size_t ORT_API_CALL two(const OrtCustomOp *op)
{
    (void)op;
    return 2;
}
static size_t ORT_API_CALL one(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}
static OrtCustomOpInputOutputCharacteristic ORT_API_CALL required(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return INPUT_OUTPUT_REQUIRED;
}
static OrtMemType ORT_API_CALL memory_type(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return OrtMemTypeDefault;
}
static int ORT_API_CALL one_int(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}
static int ORT_API_CALL many(const OrtCustomOp *op)
{
    (void)op;
    return 1000000;
}

static void attributes(const OrtKernelInfo *info)
{
    int64_t count = 0;
    float weight = 0;
    char text[16] = "";
    size_t size = sizeof text;

    if (CALL(KernelInfoGetAttribute_int64, info, "count", &count))
        print_line("%lld", (long long)count);
    CALL(KernelInfoGetAttribute_float, info, "missing", &weight);
    CALL(KernelInfoGetAttribute_string, info, "missing", text, &size);
    size = 0;
    CALL(KernelInfoGetAttributeArray_int64, info, "missing", NULL, &size);
    CALL(KernelInfoGetAttributeArray_float, info, "missing", NULL, &size);
}

/* Operators of ONNX that the kernel calls. */
static OrtOp *add, *softmax;

static void make_operators(const OrtKernelInfo *info)
{
    static const ONNXTensorElementDataType types[] = { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT };
    static const int64_t axis = -1;
    const char *constraint = "T";
    OrtOpAttr *attribute = NULL;

    CALL(CreateOp, info, "Add", "", 14, &constraint, types, 1, NULL, 0, 2, 1, &add);
    CALL(CreateOpAttr, "axis", &axis, 1, ORT_OP_ATTR_INT, &attribute);
    CALL(CreateOp, info, "Softmax", "", 13, &constraint, types, 1, (const OrtOpAttr *const *)&attribute, 1, 1, 1,
         &softmax);
    USE(ReleaseOpAttr, attribute);
}

static void call_operators(const OrtKernelContext *context, const OrtValue *const *in)
{
    static const int64_t dims[] = { 3 };
    float sum[3] = { 0 }, shares[3] = { 0 };
    OrtValue *to = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, sum, sizeof sum, 1, dims);
    OrtValue *last = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, shares, sizeof shares, 1, dims);
    const OrtValue *again = to;

    if (CALL(InvokeOp, context, add, in, 2, &to, 1))
        print_line("%g %g %g", sum[0], sum[1], sum[2]);
    if (CALL(InvokeOp, context, softmax, &again, 1, &last, 1))
        print_line("%.4f %.4f %.4f", shares[0], shares[1], shares[2]);
    USE(ReleaseValue, to);
    USE(ReleaseValue, last);
}

static OrtStatusPtr ORT_API_CALL create(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info,
                                        void **kernel)
{
    const OrtValue *constant = NULL;
    const OrtLogger *logger = NULL;
    OrtLoggingLevel level;
    OrtKernelInfo *copy = NULL;
    OrtAllocator *memory = NULL;
    OrtTypeInfo *info_of_type = NULL;
    char text[16] = "";
    size_t size = 0;
    int yes = -1;

    (void)op, (void)table;
    *kernel = &env;
    attributes(info);
    if (CALL(KernelInfo_GetInputCount, info, &size))
        print_line("%zu", size);
    if (CALL(KernelInfo_GetOutputCount, info, &size))
        print_line("%zu", size);
    size = sizeof text;
    if (CALL(KernelInfo_GetInputName, info, 0, text, &size))
        print_line("%s in %zu bytes", text, size);
    size = sizeof text;
    if (CALL(KernelInfo_GetOutputName, info, 0, text, &size))
        print_line("%s in %zu bytes", text, size);
    size = sizeof text;
    if (CALL(KernelInfo_GetNodeName, info, text, &size))
        print_line("%s in %zu bytes", text, size);
    size = 1;
    CALL(KernelInfo_GetInputName, info, 0, text, &size);
    if (CALL(KernelInfo_GetInputTypeInfo, info, 0, &info_of_type))
        print_type(info_of_type);
    USE(ReleaseTypeInfo, info_of_type);
    if (CALL(KernelInfo_GetOutputTypeInfo, info, 0, &info_of_type))
        print_type(info_of_type);
    USE(ReleaseTypeInfo, info_of_type);
    if (CALL(KernelInfoGetConstantInput_tensor, info, 0, &yes, &constant))
        print_line("constant: %d", yes);
    if (CALL(KernelInfoGetConstantInput_tensor, info, 1, &yes, &constant)) {
        print_line("constant: %d", yes);
        print_floats((OrtValue *)(uintptr_t)constant);
    }
    if (CALL(KernelInfo_GetLogger, info, &logger) && CALL(Logger_GetLoggingSeverityLevel, logger, &level))
        CALL(Logger_LogMessage, logger, ORT_LOGGING_LEVEL_VERBOSE, "made", __FILE__, __LINE__, __func__);
    if (CALL(KernelInfoGetAllocator, info, OrtMemTypeDefault, &memory))
        print_line("an allocator: %d", memory != NULL);
    make_operators(info);
    if (CALL(CopyKernelInfo, info, &copy))
        USE(ReleaseKernelInfo, copy);
    return NULL;
}

static void ORT_API_CALL add_part(void *user, size_t i)
{
    float **elements = user;

    elements[2][i] = elements[0][i] + elements[1][i];
}

static OrtStatusPtr ORT_API_CALL compute(void *kernel, OrtKernelContext *context)
{
    static const int64_t dims[] = { 3 };
    const OrtValue *in[2] = { NULL, NULL };
    const OrtLogger *logger = NULL;
    OrtAllocator *memory = NULL;
    OrtValue *out = NULL;
    float *parts[3];
    void *elements = NULL;
    size_t size = 0;

    (void)kernel;
    if (CALL(KernelContext_GetInputCount, context, &size))
        print_line("%zu", size);
    if (CALL(KernelContext_GetOutputCount, context, &size))
        print_line("%zu", size);
    CALL(KernelContext_GetInput, context, 0, &in[0]);
    CALL(KernelContext_GetInput, context, 1, &in[1]);
    CALL(KernelContext_GetOutput, context, 0, dims, 1, &out);
    for (int i = 0; i < 3; i++) {
        CALL(GetTensorMutableData, i < 2 ? (OrtValue *)(uintptr_t)in[i] : out, &elements);
        parts[i] = elements;
    }
    if (CALL(KernelContext_GetLogger, context, &logger))
        print_line("a logger: %d", logger != NULL);
    if (CALL(KernelContext_GetAllocator, context, cpu(), &memory)) {
        if (CALL(AllocatorAlloc, memory, 16, &elements))
            CALL(AllocatorFree, memory, elements);
        USE(ReleaseAllocator, memory);
    }
    /* KernelContext_GetScratchBuffer of 1.21 crashes on CPUs, which have no stream. It is not called. */
    call_operators(context, in);
    CALL(KernelContext_ParallelFor, context, add_part, 3, 1, parts);
    return NULL;
}

static void ORT_API_CALL destroy(void *kernel)
{
    print_line("the kernel is destroyed: %d", kernel == &env);
    USE(ReleaseOp, add);
    USE(ReleaseOp, softmax);
}

static OrtStatusPtr ORT_API_CALL infer(const OrtCustomOp *op, OrtShapeInferContext *context)
{
    OrtTensorTypeAndShapeInfo *shape = NULL;
    size_t size = 0;

    (void)op;
    note("ShapeInferContext_GetInputCount");
    note("ShapeInferContext_GetInputTypeShape");
    note("ShapeInferContext_SetOutputTypeShape");
    /* The number of calls depends on the library, so nothing is printed. */
    if (api->ShapeInferContext_GetInputCount(context, &size) != NULL || size != 2 ||
        api->ShapeInferContext_GetInputTypeShape(context, 0, &shape) != NULL)
        return api->CreateStatus(ORT_FAIL, "no shape");
    return api->ShapeInferContext_SetOutputTypeShape(context, 0, shape);
}

void kernels(void)
{
    static const int64_t dims[] = { 3 };
    static const float ones[] = { 1, 1, 1 };
    static onnx_bytes graph, file;
    static OrtCustomOp op;
    float x[3] = { 1, 2, 3 };
    const char *x_name = "x", *z_name = "z";
    OrtValue *in = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, x, sizeof x, 1, dims), *out = NULL;
    const OrtValue *fed = in;
    OrtCustomOpDomain *domain = NULL;
    OrtSessionOptions *options = NULL;
    OrtSession *session;

    op = (OrtCustomOp){ .version = ORT_API_VERSION,
                        .GetName = name,
                        .GetExecutionProviderType = provider,
                        .GetInputType = type,
                        .GetInputTypeCount = two,
                        .GetOutputType = type,
                        .GetOutputTypeCount = one,
                        .KernelDestroy = destroy,
                        .GetInputCharacteristic = required,
                        .GetOutputCharacteristic = required,
                        .GetInputMemoryType = memory_type,
                        .GetVariadicInputMinArity = one_int,
                        .GetVariadicInputHomogeneity = one_int,
                        .GetVariadicOutputMinArity = one_int,
                        .GetVariadicOutputHomogeneity = one_int,
                        .CreateKernelV2 = create,
                        .KernelComputeV2 = compute,
                        .InferOutputShapeFn = infer,
                        .GetStartVersion = one_int,
                        .GetEndVersion = many };
    onnx_node_int(&graph, "Sum2", "test.sum", "x,one", "y", "count", 3);
    onnx_node(&graph, "Neg", "", "y", "z");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, dims);
    onnx_constant(&graph, "one", INLAY_FLOAT, 1, dims, ones, sizeof ones);
    onnx_output(&graph, "z", INLAY_FLOAT, 1, dims);
    if (onnx_file(&file, &graph, 17, "test.sum") != 0)
        exit(1);
    open_bytes(&file, NULL); /* the operator is not registered yet */
    CALL(CreateCustomOpDomain, "test.sum", &domain);
    CALL(CustomOpDomain_Add, domain, &op);
    CALL(CreateSessionOptions, &options);
    CALL(SetIntraOpNumThreads, options, 1);
    CALL(AddCustomOpDomain, options, domain);
    session = open_bytes(&file, options);
    if (session != NULL && CALL(Run, session, NULL, &x_name, &fed, 1, &z_name, 1, &out)) {
        print_floats(out);
        USE(ReleaseValue, out);
    }
    USE(ReleaseSession, session);
    USE(ReleaseSessionOptions, options);
    USE(ReleaseCustomOpDomain, domain);
    USE(ReleaseValue, in);
}
