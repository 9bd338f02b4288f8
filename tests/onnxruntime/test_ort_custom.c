/* Custom operators of the program and of a library: queries of kernels, strings, constants, shapes, failures. */
#include "ort_test.h"
#include "custom_op.h"
#include <stdbool.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8 };

/* An operator of the program: the interface's struct, and the data that its functions return. */
typedef struct test_op {
    OrtCustomOp op; /* first */
    const char *name;
    int inputs[4], outputs[4]; /* element types; -1 ends them */
    OrtStatus *(*run)(OrtKernelContext *context);
    OrtStatus *(*query)(const OrtKernelInfo *info); /* called when a kernel is created; may be NULL */
} test_op;

static const test_op *of(const OrtCustomOp *op)
{
    return (const test_op *)(const void *)op;
}
static const char *op_name(const OrtCustomOp *op)
{
    return of(op)->name;
}
static size_t count_types(const int *types)
{
    size_t count = 0;

    while (count < 4 && types[count] >= 0)
        count++;
    return count;
}
static int input_type(const OrtCustomOp *op, size_t i)
{
    return of(op)->inputs[i];
}
static size_t input_count(const OrtCustomOp *op)
{
    return count_types(of(op)->inputs);
}
static int output_type(const OrtCustomOp *op, size_t i)
{
    return of(op)->outputs[i];
}
static size_t output_count(const OrtCustomOp *op)
{
    return count_types(of(op)->outputs);
}
static int kernels;
static OrtStatus *create(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info, void **out)
{
    assert_non_null(table);
    *out = (void *)(uintptr_t)op;
    kernels++;
    return of(op)->query != NULL ? of(op)->query(info) : NULL;
}
static OrtStatus *compute(void *kernel, OrtKernelContext *context)
{
    return ((const test_op *)kernel)->run(context);
}
static void destroy(void *kernel)
{
    assert_non_null(kernel);
    kernels--;
}

static void finish_op(test_op *op)
{
    op->op = (OrtCustomOp){
        .version = 18,
        .GetName = op_name,
        CUSTOM_OP_COMMON,
        .GetInputType = input_type,
        .GetInputTypeCount = input_count,
        .GetOutputType = output_type,
        .GetOutputTypeCount = output_count,
        .KernelDestroy = destroy,
        .CreateKernelV2 = create,
        .KernelComputeV2 = compute,
    };
}

static OrtSessionOptions *options_with(test_op *op, const char *domain_name, OrtCustomOpDomain **domain)
{
    OrtSessionOptions *options;

    finish_op(op);
    ok(api->CreateCustomOpDomain(domain_name, domain));
    ok(api->CustomOpDomain_Add(*domain, &op->op));
    ok(api->CreateSessionOptions(&options));
    ok(api->AddCustomOpDomain(options, *domain));
    return options;
}

/* Begins a node of a custom operator, to which attributes can be added. */
static wire_mark custom_begin(struct wire *wire, const char *domain, const char *op, const char *inputs,
                              const char *outputs)
{
    wire_mark node = mw_node_begin(wire, op, inputs, outputs);
    char name[32];

    (void)snprintf(name, sizeof name, "node of %s", outputs); /* ONNX Runtime requires different names */
    wire_text(wire, 3, name);
    wire_text(wire, 7, domain);
    return node;
}

static void data_of(const OrtValue *value, float **data, size_t *count)
{
    OrtTensorTypeAndShapeInfo *info;
    void *elements;

    ok(api->GetTensorTypeAndShape(value, &info));
    ok(api->GetTensorShapeElementCount(info, count));
    api->ReleaseTensorTypeAndShapeInfo(info);
    ok(api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &elements));
    *data = elements;
}

static void add_part(void *user, size_t i)
{
    float **parts = user;

    parts[2][i] = parts[0][i] + parts[1][i];
}

static OrtStatus *run_sum(OrtKernelContext *context)
{
    const OrtValue *first, *second;
    const OrtLogger *logger;
    float *parts[3];
    OrtValue *out;
    int64_t dims[1];
    size_t count, second_count;
    OrtSyncStream *sync_stream;
    void *scratch, *stream;

    ok(api->KernelContext_GetInputCount(context, &count));
    assert_int_equal(count, 2);
    ok(api->KernelContext_GetOutputCount(context, &count));
    assert_int_equal(count, 1);
    ok(api->KernelContext_GetInput(context, 0, &first));
    ok(api->KernelContext_GetInput(context, 1, &second));
    data_of(first, &parts[0], &count);
    data_of(second, &parts[1], &second_count);
    assert_int_equal(count, second_count);
    dims[0] = (int64_t)count;
    ok(api->KernelContext_GetOutput(context, 0, dims, 1, &out));
    data_of(out, &parts[2], &second_count);
    ok(api->KernelContext_GetScratchBuffer(context, cpu(), 100, &scratch));
    memset(scratch, 0, 100);
    ok(api->KernelContext_GetLogger(context, &logger));
    ok(api->KernelContext_GetGPUComputeStream(context, &stream));
    assert_null(stream);
    ok(api->KernelContext_GetSyncStream(context, &sync_stream));
    assert_null(sync_stream);
    ok(api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_VERBOSE, "summing", __FILE__, __LINE__, __func__));
    ok(api->KernelContext_ParallelFor(context, add_part, count, 2, parts));
    return NULL;
}

static OrtStatus *query_sum(const OrtKernelInfo *info)
{
    const OrtValue *constant;
    OrtTypeInfo *type;
    OrtKernelInfo *copy;
    float weight, *data;
    int64_t integer, ints[2];
    char text[16];
    size_t size = sizeof text;
    int yes;

    ok(api->KernelInfoGetAttribute_float(info, "weight", &weight));
    assert_float_equal(weight, 0.5f, 0);
    ok(api->KernelInfoGetAttribute_int64(info, "count", &integer));
    assert_int_equal(integer, 3);
    ok(api->KernelInfoGetAttribute_string(info, "mode", text, &size));
    assert_string_equal(text, "fast");
    size = 2;
    fails(api->KernelInfoGetAttribute_string(info, "mode", text, &size), ORT_INVALID_ARGUMENT, "not large enough");
    size = 0;
    ok(api->KernelInfoGetAttributeArray_int64(info, "axes", NULL, &size));
    assert_int_equal(size, 2);
    ok(api->KernelInfoGetAttributeArray_int64(info, "axes", ints, &size));
    assert_true(ints[0] == 1 && ints[1] == -1);
    fails(api->KernelInfoGetAttribute_float(info, "missing", &weight), ORT_FAIL, "missing");
    ok(api->KernelInfo_GetInputCount(info, &size));
    assert_int_equal(size, 2);
    ok(api->KernelInfo_GetOutputCount(info, &size));
    assert_int_equal(size, 1);
    size = sizeof text;
    ok(api->KernelInfo_GetInputName(info, 0, text, &size));
    assert_string_equal(text, "x");
    size = sizeof text;
    ok(api->KernelInfo_GetOutputName(info, 0, text, &size));
    assert_string_equal(text, "y");
    size = sizeof text;
    ok(api->KernelInfo_GetNodeName(info, text, &size));
    assert_string_equal(text, "node of y");
    ok(api->KernelInfo_GetInputTypeInfo(info, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->KernelInfo_GetOutputTypeInfo(info, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->KernelInfoGetConstantInput_tensor(info, 0, &yes, &constant));
    assert_int_equal(yes, 0);
    ok(api->KernelInfoGetConstantInput_tensor(info, 1, &yes, &constant));
    assert_int_equal(yes, 1);
    data_of(constant, &data, &size);
    assert_true(size == 3 && data[2] == 1.0f);
    ok(api->CopyKernelInfo(info, &copy));
    api->ReleaseKernelInfo(copy);
    if (ours()) {
        size = sizeof text;
        ok(api->KernelInfo_GetOperatorType(info, text, &size));
        assert_string_equal(text, "Sum2");
        size = sizeof text;
        ok(api->KernelInfo_GetOperatorDomain(info, text, &size));
        assert_string_equal(text, "test.sum");
        ok(api->KernelInfo_GetOperatorSinceVersion(info, &yes));
        assert_int_equal(yes, 1);
    }
    return NULL;
}

static void attr_head(struct wire *wire, const char *name, int kind)
{
    wire_text(wire, 1, name);
    wire_int(wire, 20, kind);
}

static void write_sum(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), node, attr;

    mw_value(wire, MW_INPUT, "x", FLOAT, "3");
    mw_ones(wire, "one", 3);
    node = custom_begin(wire, "test.sum", "Sum2", "x,one", "y");
    attr = wire_begin(wire, 5);
    attr_head(wire, "weight", 1);
    wire_float(wire, 2, 0.5f);
    wire_end(wire, attr);
    attr = wire_begin(wire, 5);
    attr_head(wire, "count", 2);
    wire_int(wire, 3, 3);
    wire_end(wire, attr);
    attr = wire_begin(wire, 5);
    attr_head(wire, "mode", 3);
    wire_text(wire, 4, "fast");
    wire_end(wire, attr);
    attr = wire_begin(wire, 5);
    attr_head(wire, "axes", 7);
    wire_int(wire, 8, 1);
    wire_int(wire, 8, -1);
    wire_end(wire, attr);
    wire_end(wire, node);
    mw_node(wire, "Neg", "y", "z");
    mw_value(wire, MW_OUTPUT, "z", FLOAT, "3");
    wire_end(wire, mark);
    mw_opset(wire, 8, "test.sum", 1);
}

static void test_operator_of_the_program(void **state)
{
    test_op sum = {
        .name = "Sum2", .inputs = { FLOAT, FLOAT, -1 }, .outputs = { FLOAT, -1 }, .run = run_sum, .query = query_sum
    };
    static const int64_t dims[] = { 3 };
    float x[3] = { 1, 2, 3 }, *data;
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *out;
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&sum, "test.sum", &domain);
    OrtSession *session, *without = NULL;
    struct wire wire = { 0 };
    size_t count;

    (void)state;
    write_sum(&wire);
    for (int round = 0; round < 3; round++) { /* two sessions at once, in three rounds */
        OrtSession *second;

        session = session_of(&wire, options);
        second = session_of(&wire, options);
        assert_int_equal(kernels, 2);
        out = run1(session, "x", in, "z");
        data_of(out, &data, &count);
        assert_true(count == 3 && data[0] == -2 && data[2] == -4);
        api->ReleaseValue(out);
        api->ReleaseSession(session);
        out = run1(second, "x", in, "z");
        api->ReleaseValue(out);
        api->ReleaseSession(second);
        assert_int_equal(kernels, 0);
    }
    /* Also if the option providers is set. */
    if (ours()) {
        ok(api->AddSessionConfigEntry(options, "inlay.providers", "reference"));
        session = session_of(&wire, options);
        out = run1(session, "x", in, "z");
        api->ReleaseValue(out);
        api->ReleaseSession(session);
    }
    /* A session that does not register the operator cannot use it. */
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, NULL, &without), ORT_FAIL, ours() ? "Sum2" : "");
    assert_null(without);
    api->ReleaseValue(in);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

static OrtStatus *run_repeat(OrtKernelContext *context)
{
    const OrtValue *in;
    OrtValue *out;
    int64_t dims[1] = { 2 };
    char text[16];
    size_t length;

    ok(api->KernelContext_GetInput(context, 0, &in));
    ok(api->GetStringTensorElementLength(in, 0, &length));
    ok(api->GetStringTensorElement(in, length, 0, text));
    text[length] = '\0';
    ok(api->KernelContext_GetOutput(context, 0, dims, 1, &out));
    ok(api->FillStringTensorElement(out, text, 0));
    ok(api->FillStringTensorElement(out, "again", 1));
    return NULL;
}

static void test_texts_and_new_shapes(void **state)
{
    test_op repeat = { .name = "Repeat", .inputs = { STRING, -1 }, .outputs = { STRING, -1 }, .run = run_repeat };
    static const int64_t dims[] = { 1 };
    static const char *const texts[] = { "once" };
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&repeat, "test.text", &domain);
    OrtValue *in = NULL, *out;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    char text[8];

    (void)state;
    mw_value(&wire, MW_INPUT, "x", STRING, "1");
    wire_end(&wire, custom_begin(&wire, "test.text", "Repeat", "x", "y"));
    mw_value(&wire, MW_OUTPUT, "y", STRING, "n");
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.text", 1);
    session = session_of(&wire, options);
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &in));
    ok(api->FillStringTensor(in, texts, 1));
    out = run1(session, "x", in, "y");
    ok(api->GetStringTensorElement(out, 4, 0, text));
    assert_memory_equal(text, "once", 4);
    ok(api->GetStringTensorElement(out, 5, 1, text));
    assert_memory_equal(text, "again", 5);
    api->ReleaseValue(out);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

static OrtStatus *run_fail(OrtKernelContext *context)
{
    (void)context;
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "the kernel does not like it");
}

static OrtStatus *infer_double(const OrtCustomOp *op, OrtShapeInferContext *context)
{
    OrtTensorTypeAndShapeInfo *in, *out;
    int64_t dims[1];
    size_t count;

    (void)op;
    ok(api->ShapeInferContext_GetInputCount(context, &count));
    assert_int_equal(count, 1);
    ok(api->ShapeInferContext_GetInputTypeShape(context, 0, &in));
    ok(api->GetDimensions(in, dims, 1));
    dims[0] *= 2;
    ok(api->CreateTensorTypeAndShapeInfo(&out));
    ok(api->SetTensorElementType(out, FLOAT));
    ok(api->SetDimensions(out, dims, 1));
    ok(api->ShapeInferContext_SetOutputTypeShape(context, 0, out));
    api->ReleaseTensorTypeAndShapeInfo(out);
    return NULL;
}

static void test_failing_kernel_and_inferred_shape(void **state)
{
    test_op fail = { .name = "Fail", .inputs = { FLOAT, -1 }, .outputs = { FLOAT, -1 }, .run = run_fail };
    static const int64_t dims[] = { 2 };
    const char *x_name = "x", *y_name = "y";
    float x[2] = { 0 };
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *out = NULL;
    const OrtTensorTypeAndShapeInfo *shape;
    const OrtValue *fed = in;
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&fail, "test.fail", &domain);
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtTypeInfo *type;
    int64_t got[1];
    OrtSession *session;

    (void)state;
    fail.op.InferOutputShapeFn = infer_double;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    wire_end(&wire, custom_begin(&wire, "test.fail", "Fail", "x", "y"));
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.fail", 1);
    session = session_of(&wire, options);
    ok(api->SessionGetOutputTypeInfo(session, 0, &type));
    ok(api->CastTypeInfoToTensorInfo(type, &shape));
    ok(api->GetDimensions(shape, got, 1));
    assert_int_equal(got[0], 4);
    api->ReleaseTypeInfo(type);
    fails(api->Run(session, NULL, &x_name, &fed, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT,
          "the kernel does not like it");
    assert_null(out);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

/* Also creates another session, as operators that wrap a model do. */
static OrtStatus *infer_with_a_session(const OrtCustomOp *op, OrtShapeInferContext *context)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    mw_node(&wire, "Neg", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(&wire, mark);
    api->ReleaseSession(session_of(&wire, NULL));
    free(wire.bytes);
    return infer_double(op, context);
}

static void test_session_created_by_shape_inference(void **state)
{
    test_op wrap = { .name = "Wrap", .inputs = { FLOAT, -1 }, .outputs = { FLOAT, -1 }, .run = run_fail };
    const OrtTensorTypeAndShapeInfo *shape;
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&wrap, "test.wrap", &domain);
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtTypeInfo *type;
    int64_t got[1] = { 0 };
    OrtSession *session;

    (void)state;
    wrap.op.InferOutputShapeFn = infer_with_a_session;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    wire_end(&wire, custom_begin(&wire, "test.wrap", "Wrap", "x", "m"));
    wire_end(&wire, custom_begin(&wire, "test.wrap", "Wrap", "m", "y"));
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.wrap", 1);
    session = session_of(&wire, options);
    ok(api->SessionGetOutputTypeInfo(session, 0, &type));
    ok(api->CastTypeInfoToTensorInfo(type, &shape));
    ok(api->GetDimensions(shape, got, 1));
    assert_int_equal(got[0], 8);
    api->ReleaseTypeInfo(type);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

static int variadic(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return ORT_VARIADIC;
}
static int twelve(const OrtCustomOp *op)
{
    (void)op;
    return 12;
}

static OrtStatus *open_many(const OrtSessionOptions *options, const char *inputs, OrtSession **out)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtStatus *failed;

    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    wire_end(&wire, custom_begin(&wire, "test.many", "Many", inputs, "y"));
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.many", 1);
    failed = api->CreateSessionFromArray(env, wire.bytes, wire.count, options, out);
    free(wire.bytes);
    return failed;
}

/* The signature of an operator cannot state a least number above 9. */
static void test_more_than_nine_inputs(void **state)
{
    test_op many = { .name = "Many", .inputs = { FLOAT, -1 }, .outputs = { FLOAT, -1 }, .run = run_fail };
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&many, "test.many", &domain);
    OrtSession *session = NULL;

    (void)state;
    many.op.GetInputCharacteristic = variadic;
    many.op.GetVariadicInputMinArity = twelve;
    if (ours())
        fails(open_many(options, "x,x,x,x,x,x,x,x,x,x,x", &session), ORT_INVALID_ARGUMENT, "at least 12");
    ok(open_many(options, "x,x,x,x,x,x,x,x,x,x,x,x", &session));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
}

static OrtOp *softmax, *clip, *unknown;

static OrtStatus *make_calls(const OrtKernelInfo *info)
{
    static const int types[] = { FLOAT };
    static const int64_t axis = 0;
    const char *constraint = "T";
    const OrtOpAttr *attrs[1];
    OrtOp *nothing;
    OrtOpAttr *attribute;

    ok(api->CreateOpAttr("axis", &axis, 1, ORT_OP_ATTR_INT, &attribute));
    attrs[0] = attribute;
    ok(api->CreateOp(info, "Softmax", "", 13, &constraint, types, 1, attrs, 1, 1, 1, &softmax));
    api->ReleaseOpAttr(attribute); /* the operator has a copy */
    ok(api->CreateOp(info, "Clip", "", 13, &constraint, types, 1, NULL, 0, 3, 1, &clip));
    if (ours()) { /* ONNX Runtime already fails here */
        ok(api->CreateOp(info, "NoSuchOperator", "", 13, NULL, NULL, 0, NULL, 0, 1, 1, &unknown));
        fails(api->CreateOp(info, "Add", "", 14, NULL, NULL, 0, NULL, 0, 2, 0, &nothing), ORT_INVALID_ARGUMENT,
              "at least one output");
        assert_null(nothing);
        fails(api->CreateOp(info, "Max", "", 13, NULL, NULL, 0, NULL, 0, INT32_MAX, 1, &nothing), ORT_INVALID_ARGUMENT,
              "at most 64 inputs and outputs");
    }
    return NULL;
}

static OrtStatus *run_calls(OrtKernelContext *context)
{
    const OrtValue *in, *args[3];
    OrtValue *out, *shares;
    float parts[2], least = 0, largest = 0.6f, *data;
    int64_t dims[1];
    size_t count;

    ok(api->KernelContext_GetInput(context, 0, &in));
    data_of(in, &data, &count);
    dims[0] = (int64_t)count;
    ok(api->KernelContext_GetOutput(context, 0, dims, 1, &out));
    shares = tensor(FLOAT, dims, 1, parts, count * sizeof *parts);
    ok(api->InvokeOp(context, softmax, &in, 1, &shares, 1));
    assert_float_equal(parts[0] + parts[1], 1, 1e-6);
    args[0] = shares;
    args[1] = ours() ? NULL : tensor(FLOAT, dims, 0, &least, sizeof least); /* ONNX Runtime requires all inputs */
    args[2] = tensor(FLOAT, dims, 0, &largest, sizeof largest);
    ok(api->InvokeOp(context, clip, args, 3, &out, 1));
    if (ours()) {
        fails(api->InvokeOp(context, clip, args, 2, &out, 1), ORT_INVALID_ARGUMENT, "created with 3 inputs");
        fails(api->InvokeOp(context, unknown, &in, 1, &out, 1), ORT_FAIL, "NoSuchOperator");
    }
    api->ReleaseValue((OrtValue *)(uintptr_t)args[1]);
    api->ReleaseValue((OrtValue *)(uintptr_t)args[2]);
    api->ReleaseValue(shares);
    return NULL;
}

static void test_operators_called_by_a_kernel(void **state)
{
    test_op caller = {
        .name = "Calls", .inputs = { FLOAT, -1 }, .outputs = { FLOAT, -1 }, .run = run_calls, .query = make_calls
    };
    static const int64_t dims[] = { 2 };
    float x[2] = { 1, 4 }, *data;
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *out;
    OrtCustomOpDomain *domain;
    OrtSessionOptions *options = options_with(&caller, "test.calls", &domain);
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    size_t count;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    wire_end(&wire, custom_begin(&wire, "test.calls", "Calls", "x", "y"));
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.calls", 1);
    session = session_of(&wire, options);
    for (int round = 0; round < 3; round++) {
        out = run1(session, "x", in, "y");
        data_of(out, &data, &count);
        assert_float_equal(data[0], 0.04742587, 1e-6);
        assert_float_equal(data[1], 0.6, 1e-6);
        api->ReleaseValue(out);
    }
    api->ReleaseOp(softmax);
    api->ReleaseOp(clip);
    if (ours())
        api->ReleaseOp(unknown);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseCustomOpDomain(domain);
    free(wire.bytes);
}

static void test_library(void **state)
{
    static const int64_t dims[] = { 2 };
    float x[2] = { 1, 2 }, *data;
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *out;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), node, attr;
    OrtSessionOptions *options;
    OrtSession *session;
    void *handle;
    size_t count;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "N");
    node = custom_begin(&wire, "test.library", "Scale", "x", "y");
    attr = wire_begin(&wire, 5);
    attr_head(&wire, "by", 1);
    wire_float(&wire, 2, 3.0f);
    wire_end(&wire, attr);
    wire_end(&wire, node);
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "N");
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "test.library", 1);
    for (int round = 0; round < 2; round++) {
        ok(api->CreateSessionOptions(&options));
        if (round == 0)
            ok(api->RegisterCustomOpsLibrary(options, CUSTOM_OPS_LIBRARY, &handle));
        else
            ok(api->RegisterCustomOpsLibrary_V2(options, CUSTOM_OPS_LIBRARY));
        session = session_of(&wire, options);
        out = run1(session, "x", in, "y");
        data_of(out, &data, &count);
        assert_true(count == 2 && data[0] == 3 && data[1] == 6);
        api->ReleaseValue(out);
        api->ReleaseSession(session);
        api->ReleaseSessionOptions(options);
    }
    ok(api->CreateSessionOptions(&options));
    fails(api->RegisterCustomOpsLibrary(options, "/nowhere/ops.so", &handle), ORT_FAIL, "/nowhere/ops.so");
    api->ReleaseSessionOptions(options);
    api->ReleaseValue(in);
    free(wire.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operator_of_the_program),
        cmocka_unit_test(test_texts_and_new_shapes),
        cmocka_unit_test(test_failing_kernel_and_inferred_shape),
        cmocka_unit_test(test_session_created_by_shape_inference),
        cmocka_unit_test(test_more_than_nine_inputs),
        cmocka_unit_test(test_operators_called_by_a_kernel),
        cmocka_unit_test(test_library),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
