/* Runs through the table: inputs and outputs of all kinds, and mistakes of programs. */
#include "ort_add.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
