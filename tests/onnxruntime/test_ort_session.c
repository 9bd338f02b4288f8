/* Sessions and runs through the table: options, names, errors as in ONNX Runtime, threads, bindings, profiles. */
#include "ort_test.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8 };

/* y = x + b, x [N,2], b a default that may be overridden; with metadata. */
static void write_add(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,2");
    mw_value(wire, MW_INPUT, "b", FLOAT, "2");
    mw_ones(wire, "b", 2);
    mw_node(wire, "Add", "x,b", "y");
    mw_node(wire, "Neg", "y", "z");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,2");
    mw_value(wire, MW_OUTPUT, "z", FLOAT, "N,2");
    wire_text(wire, 10, "adds b to rows");
    wire_end(wire, mark);
    wire_text(wire, 2, "a maker");
    wire_text(wire, 4, "com.example");
    wire_int(wire, 5, 42);
    wire_text(wire, 6, "adds");
    mw_entry(wire, 14, "author", "an author");
    mw_entry(wire, 14, "licence", "none");
}

static OrtSession *open_add(const OrtSessionOptions *options)
{
    struct wire wire = { 0 };
    OrtSession *session;

    write_add(&wire);
    session = session_of(&wire, options);
    free(wire.bytes);
    return session;
}

static void check_sum(OrtSession *session, int64_t rows)
{
    const int64_t dims[] = { rows, 2 };
    float *data = calloc((size_t)rows * 2, sizeof *data);
    OrtValue *value, *y;
    void *elements;

    for (int64_t i = 0; i < rows * 2; i++)
        data[i] = (float)i;
    value = tensor(FLOAT, dims, 2, data, (size_t)rows * 2 * sizeof *data);
    y = run1(session, "x", value, "y");
    ok(api->GetTensorMutableData(y, &elements));
    for (int64_t i = 0; i < rows * 2; i++)
        assert_float_equal(((float *)elements)[i], (float)i + 1, 0);
    api->ReleaseValue(value);
    api->ReleaseValue(y);
    free(data);
}

/* ------------------------------------------------------------------ information about a session */

static void test_names_and_types(void **state)
{
    const OrtTensorTypeAndShapeInfo *info;
    const char *symbols[2];
    OrtTypeInfo *type;
    int64_t dims[2];
    OrtSession *session = open_add(NULL);
    char *name;
    size_t count;
    int kind;

    (void)state;
    ok(api->SessionGetInputCount(session, &count));
    assert_int_equal(count, 1);
    ok(api->SessionGetOutputCount(session, &count));
    assert_int_equal(count, 2);
    ok(api->SessionGetOverridableInitializerCount(session, &count));
    assert_int_equal(count, 1);
    ok(api->SessionGetInputName(session, 0, allocator, &name));
    assert_string_equal(name, "x");
    ok(api->AllocatorFree(allocator, name));
    ok(api->SessionGetOutputName(session, 1, allocator, &name));
    assert_string_equal(name, "z");
    ok(api->AllocatorFree(allocator, name));
    ok(api->SessionGetOverridableInitializerName(session, 0, allocator, &name));
    assert_string_equal(name, "b");
    ok(api->AllocatorFree(allocator, name));
    fails(api->SessionGetInputName(session, 1, allocator, &name), ORT_FAIL, "index out of range");
    ok(api->SessionGetInputTypeInfo(session, 0, &type));
    ok(api->GetOnnxTypeFromTypeInfo(type, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    ok(api->CastTypeInfoToTensorInfo(type, &info));
    ok(api->GetDimensions(info, dims, 2));
    ok(api->GetSymbolicDimensions(info, symbols, 2));
    assert_true(dims[0] == -1 && dims[1] == 2);
    assert_string_equal(symbols[0], "N");
    assert_string_equal(symbols[1], "");
    api->ReleaseTypeInfo(type);
    ok(api->SessionGetOutputTypeInfo(session, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->SessionGetOverridableInitializerTypeInfo(session, 0, &type));
    api->ReleaseTypeInfo(type);
    api->ReleaseSession(session);
}

static void expect_text(char *text, const char *want)
{
    assert_string_equal(text, want);
    ok(api->AllocatorFree(allocator, text));
}

static void test_metadata(void **state)
{
    OrtSession *session = open_add(NULL);
    OrtModelMetadata *metadata;
    int64_t version, count;
    char *text = NULL, **keys;

    (void)state;
    ok(api->SessionGetModelMetadata(session, &metadata));
    api->ReleaseSession(session); /* the metadata outlives the session */
    ok(api->ModelMetadataGetProducerName(metadata, allocator, &text));
    expect_text(text, "a maker");
    ok(api->ModelMetadataGetGraphName(metadata, allocator, &text));
    expect_text(text, "g");
    ok(api->ModelMetadataGetDomain(metadata, allocator, &text));
    expect_text(text, "com.example");
    ok(api->ModelMetadataGetDescription(metadata, allocator, &text));
    expect_text(text, "adds");
    ok(api->ModelMetadataGetGraphDescription(metadata, allocator, &text));
    expect_text(text, "adds b to rows");
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "author", &text));
    expect_text(text, "an author");
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "missing", &text));
    assert_null(text);
    ok(api->ModelMetadataGetVersion(metadata, &version));
    assert_int_equal(version, 42);
    ok(api->ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, &keys, &count));
    assert_int_equal(count, 2);
    for (int64_t i = 0; i < count; i++)
        ok(api->AllocatorFree(allocator, keys[i]));
    ok(api->AllocatorFree(allocator, keys));
    api->ReleaseModelMetadata(metadata);
}

/* ------------------------------------------------------------------ runs */

static void test_run(void **state)
{
    OrtSession *session = open_add(NULL);

    (void)state;
    check_sum(session, 3);
    check_sum(session, 1);
    check_sum(session, 1000);
    api->ReleaseSession(session);
}

static void test_outputs_in_any_order_and_given(void **state)
{
    static const int64_t dims[] = { 1, 2 }, two[] = { 2 }, wrong[] = { 2, 2 };
    const char *inputs[] = { "b", "x" }, *outputs[] = { "z", "y" };
    float x[2] = { 1, 2 }, b[2] = { 10, 20 }, z[2] = { 0 }, more[4];
    const OrtValue *values[] = { tensor(FLOAT, two, 1, b, sizeof b), tensor(FLOAT, dims, 2, x, sizeof x) };
    OrtValue *results[2] = { tensor(FLOAT, dims, 2, z, sizeof z), NULL };
    OrtSession *session = open_add(NULL);
    void *elements;

    (void)state;
    ok(api->Run(session, NULL, inputs, values, 2, outputs, 2, results));
    assert_true(z[0] == -11 && z[1] == -22); /* written directly to the program's memory */
    ok(api->GetTensorMutableData(results[1], &elements));
    assert_float_equal(((float *)elements)[1], 22, 0);
    api->ReleaseValue(results[0]);
    api->ReleaseValue(results[1]);
    results[0] = tensor(FLOAT, wrong, 2, more, sizeof more);
    results[1] = NULL;
    fails(api->Run(session, NULL, inputs, values, 2, outputs, 2, results), ORT_INVALID_ARGUMENT,
          "has shape {2,2} but the computed output shape for this run is {1,2}");
    assert_null(results[1]);
    api->ReleaseValue(results[0]);
    api->ReleaseValue((OrtValue *)(uintptr_t)values[0]);
    api->ReleaseValue((OrtValue *)(uintptr_t)values[1]);
    api->ReleaseSession(session);
}

/* A failed run returns none of the outputs that it created, however many there are. */
static void test_many_outputs_of_a_failed_run(void **state)
{
    enum { COUNT = 70 };
    static const int64_t dims[] = { 2 };
    const char *x_name = "x", *outputs[COUNT];
    char names[COUNT][8];
    float x[2] = { 1, 2 };
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *results[COUNT] = { NULL };
    const OrtValue *fed = in;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    OrtStatus *failed;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "y%zu", i);
        outputs[i] = names[i];
        mw_node(&wire, "Neg", "x", names[i]);
        mw_value(&wire, MW_OUTPUT, names[i], FLOAT, "2");
    }
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &results[COUNT - 1])); /* the output is a float */
    failed = api->Run(session, NULL, &x_name, &fed, 1, outputs, COUNT, results);
    assert_non_null(failed);
    api->ReleaseStatus(failed);
    for (size_t i = 0; i < COUNT - 1; i++)
        assert_null(results[i]);
    api->ReleaseValue(results[COUNT - 1]);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    free(wire.bytes);
}

/* Later runs do not change the results of earlier ones. */
static void test_results_are_kept(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    float x[2] = { 1, 2 };
    OrtValue *in = tensor(FLOAT, dims, 2, x, sizeof x), *kept, *later;
    OrtSession *session = open_add(NULL);
    void *elements;

    (void)state;
    kept = run1(session, "x", in, "y");
    x[0] = 100;
    later = run1(session, "x", in, "y");
    ok(api->GetTensorMutableData(kept, &elements));
    assert_float_equal(((float *)elements)[0], 2, 0);
    ok(api->GetTensorMutableData(later, &elements));
    assert_float_equal(((float *)elements)[0], 101, 0);
    api->ReleaseValue(later);
    api->ReleaseSession(session);
    ok(api->GetTensorMutableData(kept, &elements)); /* results outlive the session */
    assert_float_equal(((float *)elements)[0], 2, 0);
    api->ReleaseValue(kept);
    api->ReleaseValue(in);
}

/* What programs do wrong when they close objects too early; only for inlay, as ONNX Runtime would use freed memory. */
static void test_use_after_release(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y";
    OrtSession *session = open_add(NULL);
    OrtModelMetadata *metadata = NULL;
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *out = NULL;
    const OrtValue *in = value;

    (void)state;
    if (ours()) {
        api->ReleaseValue(value);
        fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT, "has been released");
        api->ReleaseSession(session);
        fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &out), ORT_FAIL, "session has been released");
        fails(api->SessionGetModelMetadata(session, &metadata), ORT_FAIL, "session has been released");
        api->ReleaseSession(session);
    } else {
        api->ReleaseValue(value);
        api->ReleaseSession(session);
    }
}

struct closing {
    OrtSession *session;
    uint32_t running; /* atomic: threads that have run once */
};

/* Runs until the session is released. */
static void *run_until_released(void *user)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y";
    struct closing *shared = user;
    float data[2] = { 1, 2 };
    OrtStatus *status = NULL;

    for (bool first = true; status == NULL; first = false) {
        OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *out = NULL;
        const OrtValue *in = value;

        status = api->Run(shared->session, NULL, &x_name, &in, 1, &y_name, 1, &out);
        api->ReleaseValue(value);
        api->ReleaseValue(out);
        if (first)
            (void)__atomic_add_fetch(&shared->running, 1, __ATOMIC_RELEASE);
    }
    assert_non_null(strstr(api->GetErrorMessage(status), "session has been released"));
    api->ReleaseStatus(status);
    return NULL;
}

static void test_release_during_runs(void **state)
{
    enum { THREADS = 3 };

    (void)state;
    for (int round = 0; round < 20 && ours(); round++) {
        struct closing shared = { .session = open_add(NULL) };
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_until_released, &shared), 0);
        while (__atomic_load_n(&shared.running, __ATOMIC_ACQUIRE) < THREADS)
            (void)sched_yield();
        api->ReleaseSession(shared.session);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* An input that no operator reads may be omitted; one that is read may not. */
static void test_unread_input(void **state)
{
    static const int64_t dims[] = { 2 };
    const char *x_name = "x", *y_name = "y";
    float data[] = { 1, -2 };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    const OrtValue *in;
    OrtValue *x, *y;
    void *elements;

    (void)state;
    mw_value(&wire, MW_INPUT, "unread", FLOAT, "3");
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    mw_node(&wire, "Neg", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    free(wire.bytes);
    x = tensor(FLOAT, dims, 1, data, sizeof data);
    y = run1(session, "x", x, "y");
    ok(api->GetTensorMutableData(y, &elements));
    assert_float_equal(((float *)elements)[1], 2, 0);
    api->ReleaseValue(y);
    y = NULL;
    x_name = "unread";
    api->ReleaseValue(x);
    x = tensor(FLOAT, (const int64_t[]){ 3 }, 1, (float[3]){ 0 }, 3 * sizeof(float));
    in = x;
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &y), ORT_FAIL, "Missing Input: x");
    api->ReleaseValue(x);
    api->ReleaseSession(session);
}

static void sparse_port(struct wire *wire, uint32_t field, const char *name)
{
    wire_mark info = wire_begin(wire, field), type, sparse, shape, dim;

    wire_text(wire, 1, name);
    type = wire_begin(wire, 2);
    sparse = wire_begin(wire, 8);
    wire_int(wire, 1, FLOAT);
    shape = wire_begin(wire, 2);
    for (int64_t size = 2; size <= 3; size++) {
        dim = wire_begin(wire, 1);
        wire_int(wire, 1, size);
        wire_end(wire, dim);
    }
    wire_end(wire, shape);
    wire_end(wire, sparse);
    wire_end(wire, type);
    wire_end(wire, info);
}

/* A sparse tensor [2,3] with the elements 5 and 7 at the linear indices 1 and 3. form: COO with one or two indices per
 * value, or CSR. */
enum { LINEAR, PAIRS, ROWS, FORMS };
static OrtValue *sparse_tensor(int form)
{
    static const int64_t dims[] = { 2, 3 }, count = 2, linear[] = { 1, 3 }, pairs[] = { 0, 1, 1, 0 };
    static const int64_t inner[] = { 1, 0 }, outer[] = { 0, 1, 2 };
    static const float elements[] = { 5, 7 };
    OrtMemoryInfo *info;
    OrtValue *value;

    ok(api->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEM_DEFAULT, &info));
    ok(api->CreateSparseTensorAsOrtValue(allocator, dims, 2, FLOAT, &value));
    if (form == ROWS)
        ok(api->FillSparseTensorCsr(value, info, &count, 1, elements, inner, 2, outer, 3));
    else
        ok(api->FillSparseTensorCoo(value, info, &count, 1, elements, form == PAIRS ? pairs : linear,
                                    form == PAIRS ? 4 : 2));
    api->ReleaseMemoryInfo(info);
    return value;
}

/* Only for inlay, whose operators all take sparse tensors. */
static void test_sparse_inputs_and_outputs(void **state)
{
    static const int64_t dims[] = { 2, 3 };
    const char *x_name = "x", *y_name = "y";
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    const void *elements;
    OrtSession *session;
    const OrtValue *in;
    OrtValue *value, *y = NULL;
    OrtTypeInfo *type;
    size_t count;
    int kind;

    (void)state;
    if (!ours())
        skip();
    sparse_port(&wire, MW_INPUT, "x");
    mw_node(&wire, "Relu", "x", "y");
    sparse_port(&wire, MW_OUTPUT, "y");
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    free(wire.bytes);
    ok(api->SessionGetInputTypeInfo(session, 0, &type));
    ok(api->GetOnnxTypeFromTypeInfo(type, &kind));
    assert_int_equal(kind, ONNX_TYPE_SPARSETENSOR);
    api->ReleaseTypeInfo(type);
    for (int form = LINEAR; form < FORMS; form++) {
        in = value = sparse_tensor(form);
        ok(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &y));
        ok(api->GetSparseTensorValues(y, &elements));
        assert_float_equal(((const float *)elements)[0], 5, 0);
        assert_float_equal(((const float *)elements)[1], 7, 0);
        ok(api->GetSparseTensorIndices(y, ORT_SPARSE_COO_INDICES, &count, &elements));
        assert_int_equal(count, 2);
        assert_int_equal(((const int64_t *)elements)[0], 1);
        assert_int_equal(((const int64_t *)elements)[1], 3);
        api->ReleaseValue(value);
        api->ReleaseValue(y);
        y = NULL;
    }
    ok(api->CreateSparseTensorAsOrtValue(allocator, dims, 2, FLOAT, &value));
    in = value; /* without indices */
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &y), ORT_NOT_IMPLEMENTED, "COO or CSR");
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    session = open_add(NULL);
    in = value = sparse_tensor(LINEAR);
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &y), ORT_INVALID_ARGUMENT,
          "Input with name: x is not expected to be of type sparse tensor.");
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

static void test_wrong_inputs(void **state)
{
    static const int64_t good[] = { 1, 2 }, long_row[] = { 1, 3 }, flat[] = { 2 };
    const char *x_name = "x", *bad_name = "nope", *y_name = "y";
    int64_t ints[2] = { 0 };
    float data[3] = { 0 };
    OrtSession *session = open_add(NULL);
    OrtValue *value = tensor(FLOAT, good, 2, data, 8), *wide = tensor(FLOAT, long_row, 2, data, 12),
             *row = tensor(FLOAT, flat, 1, data, 8), *wrong = tensor(INT64, good, 2, ints, 16), *out = NULL;
    const OrtValue *in = value;

    (void)state;
    fails(api->Run(session, NULL, &bad_name, &in, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT,
          "Invalid input name: nope");
    fails(api->Run(session, NULL, &x_name, &in, 1, &bad_name, 1, &out), ORT_INVALID_ARGUMENT,
          "Invalid output name: nope");
    fails(api->Run(session, NULL, NULL, NULL, 0, &y_name, 1, &out), ORT_FAIL, "Missing Input: x");
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 0, &out), ORT_INVALID_ARGUMENT,
          "t least one output should be requested");
    in = row;
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT,
          "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs or the model.");
    in = wide;
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT,
          "Got invalid dimensions for input: x for the following indices\n index: 1 Got: 3 Expected: 2\n");
    in = wrong;
    fails(api->Run(session, NULL, &x_name, &in, 1, &y_name, 1, &out), ORT_INVALID_ARGUMENT,
          "Unexpected input data type. Actual: (tensor(int64)) , expected: (tensor(float))");
    assert_null(out);
    check_sum(session, 2); /* the session still works */
    api->ReleaseValue(value);
    api->ReleaseValue(wide);
    api->ReleaseValue(row);
    api->ReleaseValue(wrong);
    api->ReleaseSession(session);
}

/* Programs give the shape [1] for a scalar input. */
static void test_one_element_for_a_scalar(void **state)
{
    static const int64_t one[] = { 1 }, two[] = { 2 };
    const char *x_name = "x", *y_name = "y";
    float data[2] = { 5, 6 };
    OrtValue *value = tensor(FLOAT, one, 1, data, 4), *pair = tensor(FLOAT, two, 1, data, 8), *y;
    const OrtValue *fed = pair;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    void *elements;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "");
    mw_node(&wire, "Neg", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, NULL);
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    y = run1(session, "x", value, "y");
    ok(api->GetTensorMutableData(y, &elements));
    assert_float_equal(*(float *)elements, -5, 0);
    api->ReleaseValue(y);
    y = NULL;
    if (ours())
        fails(api->Run(session, NULL, &x_name, &fed, 1, &y_name, 1, &y), ORT_INVALID_ARGUMENT,
              "Invalid rank for input: x");
    api->ReleaseValue(value);
    api->ReleaseValue(pair);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static void test_texts_through_a_model(void **state)
{
    static const int64_t dims[] = { 2 };
    static const char *const texts[] = { "left", "right" };
    OrtValue *in = NULL, *out, *given = NULL;
    const char *x_name = "x", *y_name = "y";
    const OrtValue *fed;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session;
    char text[8];

    (void)state;
    mw_value(&wire, MW_INPUT, "x", STRING, "N");
    mw_node(&wire, "Identity", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", STRING, "N");
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &in));
    ok(api->FillStringTensor(in, texts, 2));
    out = run1(session, "x", in, "y");
    ok(api->GetStringTensorElement(out, 5, 1, text));
    assert_memory_equal(text, "right", 5);
    api->ReleaseValue(out);
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &given));
    fed = in;
    ok(api->Run(session, NULL, &x_name, &fed, 1, &y_name, 1, &given));
    ok(api->GetStringTensorElement(given, 4, 0, text));
    assert_memory_equal(text, "left", 4);
    api->ReleaseValue(given);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static void test_sequence_made_by_a_model(void **state)
{
    static const int64_t dims[] = { 3 };
    float x[3] = { 1, 2, 3 };
    OrtValue *in = tensor(FLOAT, dims, 1, x, sizeof x), *list, *item;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), value, type, sequence, inner, t;
    OrtSession *session;
    size_t count;
    void *elements;
    int kind;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", FLOAT, "3");
    mw_node(&wire, "Neg", "x", "y");
    mw_node(&wire, "SequenceConstruct", "x,y", "s");
    value = wire_begin(&wire, MW_OUTPUT);
    wire_text(&wire, 1, "s");
    type = wire_begin(&wire, 2);
    sequence = wire_begin(&wire, 4);
    inner = wire_begin(&wire, 1);
    t = wire_begin(&wire, 1);
    mw_tensor_type(&wire, FLOAT, NULL);
    wire_end(&wire, t);
    wire_end(&wire, inner);
    wire_end(&wire, sequence);
    wire_end(&wire, type);
    wire_end(&wire, value);
    wire_end(&wire, mark);
    session = session_of(&wire, NULL);
    list = run1(session, "x", in, "s");
    ok(api->GetValueType(list, &kind));
    assert_int_equal(kind, ONNX_TYPE_SEQUENCE);
    ok(api->GetValueCount(list, &count));
    assert_int_equal(count, 2);
    ok(api->GetValue(list, 1, allocator, &item));
    api->ReleaseValue(list); /* the item remains valid */
    ok(api->GetTensorMutableData(item, &elements));
    assert_float_equal(((float *)elements)[2], -3, 0);
    api->ReleaseValue(item);
    api->ReleaseValue(in);
    api->ReleaseSession(session);
    free(wire.bytes);
}

/* ------------------------------------------------------------------ files that are not models */

static void test_models_that_cannot_be_opened(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session = NULL;

    (void)state;
    fails(api->CreateSession(env, "/nowhere/model.onnx", NULL, &session), ORT_NO_SUCHFILE,
          "Load model from /nowhere/model.onnx failed:Load model /nowhere/model.onnx failed. File doesn't exist");
    fails(api->CreateSessionFromArray(env, "not a model at all", 18, NULL, &session), ORT_INVALID_PROTOBUF,
          "protobuf parsing failed");
    assert_null(session);
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    mw_node(&wire, "Relu", "nothing", "y");
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(&wire, mark);
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, NULL, &session),
          ours() ? ORT_INVALID_GRAPH : ORT_INVALID_ARGUMENT, "");
    assert_null(session);
    free(wire.bytes);
}

/* ------------------------------------------------------------------ options */

static void test_session_options(void **state)
{
    OrtSessionOptions *options, *copy;
    OrtKeyValuePairs *entries;
    char text[32];
    size_t size = sizeof text;
    OrtSession *session;
    int value;

    (void)state;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 1));
    ok(api->SetInterOpNumThreads(options, 1));
    ok(api->SetSessionGraphOptimizationLevel(options, 1));
    fails(api->SetSessionGraphOptimizationLevel(options, 57), ORT_INVALID_ARGUMENT,
          "graph_optimization_level is not valid");
    ok(api->SetSessionExecutionMode(options, 1));
    ok(api->GetSessionExecutionMode(options, &value));
    assert_int_equal(value, 1);
    ok(api->DisableMemPattern(options));
    ok(api->GetMemPatternEnabled(options, &value));
    assert_int_equal(value, 0);
    ok(api->EnableMemPattern(options));
    ok(api->DisableCpuMemArena(options));
    ok(api->EnableCpuMemArena(options));
    ok(api->SetSessionLogId(options, "mine"));
    ok(api->SetSessionLogSeverityLevel(options, 3));
    ok(api->SetSessionLogVerbosityLevel(options, 0));
    ok(api->SetDeterministicCompute(options, true));
    ok(api->AddFreeDimensionOverrideByName(options, "N", 2));
    ok(api->AddFreeDimensionOverrideByName(options, "none", 3)); /* a dimension that this model does not have */
    ok(api->AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
    ok(api->HasSessionConfigEntry(options, "session.disable_prepacking", &value));
    assert_int_equal(value, 1);
    ok(api->GetSessionConfigEntry(options, "session.disable_prepacking", text, &size));
    assert_string_equal(text, "1");
    assert_int_equal(size, 2);
    fails(api->GetSessionConfigEntry(options, "missing", text, &size), ORT_INVALID_ARGUMENT, "was not found");
    ok(api->GetSessionOptionsConfigEntries(options, &entries));
    assert_string_equal(api->GetKeyValue(entries, "session.disable_prepacking"), "1");
    api->ReleaseKeyValuePairs(entries);
    ok(api->CloneSessionOptions(options, &copy));
    api->ReleaseSessionOptions(options);
    session = open_add(copy);
    check_sum(session, 2);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(copy);
}

/* Config entries with the names of inlay's options set these options; invalid values give inlay's messages. */
static void test_options_of_inlay(void **state)
{
    char name[600] = "";
    const char *key = name;
    OrtSession *session = NULL;
    OrtSessionOptions *options;
    struct wire wire = { 0 };

    (void)state;
    if (!ours())
        return;
    write_add(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, "inlay.policy", "nonsense"));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT, "policy");
    ok(api->AddSessionConfigEntry(options, "inlay.policy", "priority"));
    (void)setenv("INLAY_INTRA_THREADS", "many", 1); /* environment variables are read, too */
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "INLAY_INTRA_THREADS");
    (void)unsetenv("INLAY_INTRA_THREADS");
    ok(api->SessionOptionsAppendExecutionProvider(options, "reference", NULL, NULL, 0));
    ok(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    fails(api->SessionOptionsAppendExecutionProvider(options, "XNNPACK", NULL, NULL, 0), ORT_INVALID_ARGUMENT,
          "Unknown provider name");
    ok(api->SessionOptionsAppendExecutionProvider(options, "no_such_provider", NULL, NULL, 0));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "no_such_provider");
    api->ReleaseSessionOptions(options);
    memset(name, 'n', sizeof name - 1); /* names are used whole, or refused */
    ok(api->CreateSessionOptions(&options));
    fails(api->SessionOptionsAppendExecutionProvider(options, "reference", &key, &key, 1), ORT_INVALID_ARGUMENT,
          "fewer than");
    ok(api->AddFreeDimensionOverrideByName(options, name, 2));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "rename the dimension");
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void test_creation_is_cancelled(void **state)
{
    OrtSession *session = NULL;
    OrtSessionOptions *options;
    struct wire wire = { 0 };

    (void)state;
    write_add(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->SessionOptionsSetLoadCancellationFlag(options, true));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_MODEL_LOAD_CANCELED, "");
    ok(api->SessionOptionsSetLoadCancellationFlag(options, false));
    ok(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static int logged_lines;
static void count_log_line(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                           const char *location, const char *message)
{
    (void)severity, (void)category, (void)location, (void)message;
    assert_ptr_equal(param, &logged_lines);
    assert_string_equal(logid, "heard");
    logged_lines++;
}

static void test_log_of_a_session(void **state)
{
    OrtSessionOptions *options;
    OrtSession *session;

    (void)state;
    logged_lines = 0;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetSessionLogId(options, "heard"));
    ok(api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_VERBOSE));
    ok(api->SetUserLoggingFunction(options, count_log_line, &logged_lines));
    ok(api->AddSessionConfigEntry(options, "some.unknown.entry", "1"));
    session = open_add(options);
    assert_true(logged_lines > 0);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

/* ------------------------------------------------------------------ options of a run */

static void test_run_options(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y", *tag;
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtSession *session = open_add(NULL);
    OrtRunOptions *options;
    int level;

    (void)state;
    ok(api->CreateRunOptions(&options));
    ok(api->RunOptionsSetRunTag(options, "tag"));
    ok(api->RunOptionsGetRunTag(options, &tag));
    assert_string_equal(tag, "tag");
    ok(api->RunOptionsSetRunLogSeverityLevel(options, 3));
    ok(api->RunOptionsGetRunLogSeverityLevel(options, &level));
    assert_int_equal(level, 3);
    ok(api->RunOptionsSetRunLogVerbosityLevel(options, 1));
    ok(api->RunOptionsGetRunLogVerbosityLevel(options, &level));
    assert_int_equal(level, 1);
    ok(api->AddRunConfigEntry(options, "memory.enable_memory_arena_shrinkage", ""));
    assert_non_null(api->GetRunConfigEntry(options, "memory.enable_memory_arena_shrinkage"));
    assert_null(api->GetRunConfigEntry(options, "missing"));
    ok(api->RunOptionsSetTerminate(options));
    fails(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y), ORT_FAIL,
          "Exiting due to terminate flag being set to true");
    assert_null(y);
    ok(api->RunOptionsUnsetTerminate(options));
    ok(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y));
    api->ReleaseValue(y);
    api->ReleaseRunOptions(options);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* Entries of a run state its priority and power: with option echo, the fake device returns 10 * priority + power. */
static void test_run_hints(void **state)
{
    static const char *const entries[][2] = { { "inlay.plugin_dirs", FAKE_DIR },
                                              { "inlay.providers", "fake,reference" },
                                              { "inlay.policy", "priority" },
                                              { "inlay.fake.echo", "true" } };
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *z_name = "z";
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *z = NULL;
    const OrtValue *in = value;
    OrtSessionOptions *settings;
    OrtRunOptions *options;
    OrtSession *session;
    void *elements;

    (void)state;
    ok(api->CreateSessionOptions(&settings));
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        ok(api->AddSessionConfigEntry(settings, entries[i][0], entries[i][1]));
    session = open_add(settings);
    ok(api->CreateRunOptions(&options));
    ok(api->AddRunConfigEntry(options, "inlay.priority", "high"));
    ok(api->AddRunConfigEntry(options, "inlay.power", "most"));
    fails(api->Run(session, options, &x_name, &in, 1, &z_name, 1, &z), ORT_INVALID_ARGUMENT,
          "inlay.power must be default, efficiency or performance, not 'most'");
    ok(api->AddRunConfigEntry(options, "inlay.power", "efficiency"));
    ok(api->Run(session, options, &x_name, &in, 1, &z_name, 1, &z));
    ok(api->GetTensorMutableData(z, &elements));
    assert_float_equal(((float *)elements)[1], 21, 0);
    api->ReleaseValue(z);
    api->ReleaseRunOptions(options);
    api->ReleaseSessionOptions(settings);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* A loop of a billion iterations, which in practice ends only if the run is terminated. */
static void write_endless(struct wire *wire)
{
    static const int64_t rounds = INT64_C(1) << 40;
    wire_mark mark = mw_begin(wire, 8, 17), t, node;
    mw_body body;

    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "rounds", INT64, 0, NULL);
    wire_bytes(wire, 9, (const char *)&rounds, sizeof rounds);
    wire_end(wire, t);
    mw_value(wire, MW_INPUT, "x", FLOAT, "2");
    node = mw_node_begin(wire, "Loop", "rounds,_,x", "y");
    body = mw_body_begin(wire, "body", "body");
    mw_value(wire, MW_INPUT, "i", INT64, "");
    mw_value(wire, MW_INPUT, "go", 9, "");
    mw_value(wire, MW_INPUT, "v", FLOAT, "2");
    mw_node(wire, "Identity", "go", "go_on");
    mw_node(wire, "Neg", "v", "w");
    mw_value(wire, MW_OUTPUT, "go_on", 9, "");
    mw_value(wire, MW_OUTPUT, "w", FLOAT, "2");
    mw_body_end(wire, body);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(wire, mark);
}

static void *terminate_soon(void *user)
{
    (void)usleep(50000);
    ok(api->RunOptionsSetTerminate(user));
    return NULL;
}

static void test_a_run_is_terminated(void **state)
{
    static const int64_t dims[] = { 2 };
    const char *x_name = "x", *y_name = "y";
    float data[2] = { 1, 2 };
    OrtValue *value = tensor(FLOAT, dims, 1, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtRunOptions *options;
    pthread_t thread;
    struct wire wire = { 0 };
    OrtSession *session;

    (void)state;
    write_endless(&wire);
    session = session_of(&wire, NULL);
    ok(api->CreateRunOptions(&options));
    assert_int_equal(pthread_create(&thread, NULL, terminate_soon, options), 0);
    fails(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y), ORT_FAIL,
          "Exiting due to terminate flag being set to true");
    (void)pthread_join(thread, NULL);
    assert_null(y);
    api->ReleaseRunOptions(options);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    free(wire.bytes);
}

/* ------------------------------------------------------------------ threads */

static void *run_often(void *user)
{
    for (int i = 0; i < 50; i++)
        check_sum(user, 1 + i % 7);
    return NULL;
}

static void test_many_threads_run_one_session(void **state)
{
    OrtSession *session = open_add(NULL);
    pthread_t threads[6];

    (void)state;
    (void)cpu(); /* created by one thread */
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, session), 0);
    for (int i = 0; i < 6; i++)
        (void)pthread_join(threads[i], NULL);
    api->ReleaseSession(session);
}

static pthread_mutex_t called_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called_cond = PTHREAD_COND_INITIALIZER;
static int called;

static void when_done(void *user, OrtValue **outputs, size_t count, OrtStatus *status)
{
    (void)pthread_mutex_lock(&called_lock);
    called = status == NULL && count == 1 && outputs[0] != NULL && user == &called ? 1 : -1;
    (void)pthread_cond_signal(&called_cond);
    (void)pthread_mutex_unlock(&called_lock);
    api->ReleaseStatus(status);
}

static void test_run_async(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y", *no_name = NULL;
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtSessionOptions *options;
    OrtSession *session;

    (void)state;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 2)); /* ONNX Runtime requires a thread besides the caller's */
    session = open_add(options);
    if (ours()) {
        fails(api->RunAsync(session, NULL, &no_name, &in, 1, &y_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "is NULL");
        fails(api->RunAsync(session, NULL, &x_name, &in, 1, &no_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "is NULL");
        fails(api->RunAsync(session, NULL, &x_name, NULL, 1, &y_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "input is NULL");
    }
    called = 0;
    ok(api->RunAsync(session, NULL, &x_name, &in, 1, &y_name, 1, &y, when_done, &called));
    (void)pthread_mutex_lock(&called_lock);
    while (called == 0)
        (void)pthread_cond_wait(&called_cond, &called_lock);
    (void)pthread_mutex_unlock(&called_lock);
    assert_int_equal(called, 1);
    api->ReleaseValue(y);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

/* ------------------------------------------------------------------ bindings */

static void test_binding(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    float x[2] = { 1, 2 }, z[2] = { 0 };
    OrtValue *in = tensor(FLOAT, dims, 2, x, sizeof x), *out = tensor(FLOAT, dims, 2, z, sizeof z), **values;
    OrtSession *session = open_add(NULL);
    OrtIoBinding *binding;
    size_t n, *lengths;
    char *names;
    void *elements;

    (void)state;
    ok(api->CreateIoBinding(session, &binding));
    ok(api->BindInput(binding, "x", in));
    ok(api->BindOutput(binding, "z", out));
    ok(api->BindOutputToDevice(binding, "y", cpu()));
    fails(api->BindInput(binding, "nope", in), ours() ? ORT_INVALID_ARGUMENT : ORT_FAIL, "nope");
    ok(api->SynchronizeBoundInputs(binding));
    ok(api->RunWithBinding(session, NULL, binding));
    ok(api->SynchronizeBoundOutputs(binding));
    assert_true(z[0] == -2 && z[1] == -3);
    ok(api->GetBoundOutputNames(binding, allocator, &names, &lengths, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(names, "zy", 2);
    ok(api->AllocatorFree(allocator, names));
    ok(api->AllocatorFree(allocator, lengths));
    ok(api->GetBoundOutputValues(binding, allocator, &values, &n));
    ok(api->GetTensorMutableData(values[1], &elements));
    assert_float_equal(((float *)elements)[1], 3, 0);
    for (size_t i = 0; i < n; i++)
        api->ReleaseValue(values[i]);
    ok(api->AllocatorFree(allocator, values));
    x[0] = 5;
    ok(api->RunWithBinding(session, NULL, binding));
    assert_float_equal(z[0], -6, 0);
    api->ClearBoundInputs(binding);
    api->ClearBoundOutputs(binding);
    api->ReleaseIoBinding(binding);
    api->ReleaseValue(in);
    api->ReleaseValue(out);
    api->ReleaseSession(session);
}

/* ------------------------------------------------------------------ profiles, and the optimised model */

static bool is_trace(const char *path)
{
    char text[4096];
    FILE *file = fopen(path, "r");
    size_t length;

    if (file == NULL)
        return false;
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    (void)unlink(path);
    return strstr(text, "\"ph\"") != NULL;
}

static void test_profile(void **state)
{
    char prefix[] = "/tmp/ort_profile_XXXXXX", *path;
    OrtSessionOptions *options;
    OrtSession *session;
    uint64_t start;
    int fd = mkstemp(prefix);

    (void)state;
    (void)close(fd);
    ok(api->CreateSessionOptions(&options));
    ok(api->EnableProfiling(options, prefix));
    session = open_add(options);
    ok(api->SessionGetProfilingStartTimeNs(session, &start));
    assert_true(start > 0);
    check_sum(session, 2);
    ok(api->SessionEndProfiling(session, allocator, &path));
    assert_memory_equal(path, prefix, strlen(prefix));
    assert_true(is_trace(path));
    ok(api->AllocatorFree(allocator, path));
    check_sum(session, 2);
    api->ReleaseSession(session);
    ok(api->DisableProfiling(options));
    session = open_add(options);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    (void)unlink(prefix);
}

static void test_model_from_a_file_and_optimised(void **state)
{
    char path[] = "/tmp/ort_model_XXXXXX", optimised[64];
    OrtSessionOptions *options;
    OrtSession *session = NULL;
    struct wire wire = { 0 };
    int fd = mkstemp(path);

    (void)state;
    write_add(&wire);
    assert_int_equal(write(fd, wire.bytes, wire.count), wire.count);
    (void)close(fd);
    free(wire.bytes);
    (void)snprintf(optimised, sizeof optimised, "%s.optimised", path);
    ok(api->CreateSessionOptions(&options));
    ok(api->SetOptimizedModelFilePath(options, optimised));
    ok(api->CreateSession(env, path, options, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    ok(api->CreateSession(env, optimised, NULL, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    (void)unlink(optimised);
    for (int i = 0; ours() && i < 2; i++) { /* inlay does not write ONNX Runtime's own format */
        (void)snprintf(optimised, sizeof optimised, "%s.%s", path, i == 0 ? "ort" : "onnx");
        ok(api->CreateSessionOptions(&options));
        ok(api->SetOptimizedModelFilePath(options, optimised));
        if (i == 1)
            ok(api->AddSessionConfigEntry(options, "session.save_model_format", "ORT"));
        fails(api->CreateSession(env, path, options, &session), ORT_NOT_IMPLEMENTED, "ORT format");
        assert_int_not_equal(access(optimised, F_OK), 0);
        api->ReleaseSessionOptions(options);
    }
    (void)unlink(path);
}

static void test_environments(void **state)
{
    OrtThreadingOptions *threads;
    OrtEnv *other;
    OrtSession *session;

    (void)state;
    ok(api->CreateThreadingOptions(&threads));
    ok(api->SetGlobalIntraOpNumThreads(threads, 1));
    ok(api->SetGlobalInterOpNumThreads(threads, 1));
    ok(api->SetGlobalSpinControl(threads, 0));
    if (ours()) { /* a process has one environment, and that of ONNX Runtime has no thread pool yet */
        ok(api->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "other", threads, &other));
        session = open_add(NULL);
        check_sum(session, 1);
        api->ReleaseSession(session);
        api->ReleaseEnv(other);
    }
    api->ReleaseThreadingOptions(threads);
    if (ours())
        fails(api->CreateEnv(17, "x", &other), ORT_INVALID_ARGUMENT, "logging level 17");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_types),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_outputs_in_any_order_and_given),
        cmocka_unit_test(test_many_outputs_of_a_failed_run),
        cmocka_unit_test(test_results_are_kept),
        cmocka_unit_test(test_use_after_release),
        cmocka_unit_test(test_release_during_runs),
        cmocka_unit_test(test_unread_input),
        cmocka_unit_test(test_sparse_inputs_and_outputs),
        cmocka_unit_test(test_wrong_inputs),
        cmocka_unit_test(test_one_element_for_a_scalar),
        cmocka_unit_test(test_texts_through_a_model),
        cmocka_unit_test(test_sequence_made_by_a_model),
        cmocka_unit_test(test_models_that_cannot_be_opened),
        cmocka_unit_test(test_session_options),
        cmocka_unit_test(test_options_of_inlay),
        cmocka_unit_test(test_creation_is_cancelled),
        cmocka_unit_test(test_log_of_a_session),
        cmocka_unit_test(test_run_options),
        cmocka_unit_test(test_run_hints),
        cmocka_unit_test(test_a_run_is_terminated),
        cmocka_unit_test(test_many_threads_run_one_session),
        cmocka_unit_test(test_run_async),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_model_from_a_file_and_optimised),
        cmocka_unit_test(test_environments),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
