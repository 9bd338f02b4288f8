/* Values, types, memory and key-value lists, without a session. */
#include "ort_test.h"

enum { FLOAT = 1, INT32 = 6, INT64 = 7, STRING = 8, FLOAT16 = 10, DOUBLE = 11 };

static void test_status(void **state)
{
    OrtStatus *status = api->CreateStatus(ORT_EP_FAIL, "why");

    (void)state;
    assert_int_equal(api->GetErrorCode(status), ORT_EP_FAIL);
    assert_string_equal(api->GetErrorMessage(status), "why");
    api->ReleaseStatus(status);
}

static void check_shape(const OrtValue *value, int type, size_t rank, const int64_t *dims, size_t count)
{
    OrtTensorTypeAndShapeInfo *info;
    int64_t got[8];
    size_t got_count;
    int kind;

    ok(api->GetTensorTypeAndShape(value, &info));
    ok(api->GetTensorElementType(info, &kind));
    assert_int_equal(kind, type);
    ok(api->GetDimensionsCount(info, &got_count));
    assert_int_equal(got_count, rank);
    ok(api->GetDimensions(info, got, rank));
    for (size_t i = 0; i < rank; i++)
        assert_int_equal(got[i], dims[i]);
    ok(api->GetTensorShapeElementCount(info, &got_count));
    assert_int_equal(got_count, count);
    assert_true(api->TensorTypeAndShape_HasShape(info));
    api->ReleaseTensorTypeAndShapeInfo(info);
}

static void test_tensor_over_the_programs_memory(void **state)
{
    static const int64_t dims[] = { 2, 3 }, place[] = { 1, 2 }, beyond[] = { 2, 0 };
    float data[6] = { 0, 1, 2, 3, 4, 5 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data);
    const OrtMemoryInfo *where;
    const int64_t *shape;
    const char *name;
    size_t count;
    int yes;
    void *elements;

    (void)state;
    ok(api->IsTensor(value, &yes));
    assert_int_equal(yes, 1);
    ok(api->HasValue(value, &yes));
    assert_int_equal(yes, 1);
    ok(api->GetTensorMutableData(value, &elements));
    assert_ptr_equal(elements, data);
    ok(api->GetTensorData(value, (const void **)&elements));
    assert_ptr_equal(elements, data);
    ok(api->TensorAt(value, place, 2, &elements));
    assert_ptr_equal(elements, data + 5);
    fails(api->TensorAt(value, beyond, 2, &elements), ORT_INVALID_ARGUMENT, "invalid location range");
    fails(api->TensorAt(value, place, 1, &elements), ORT_INVALID_ARGUMENT,
          "location dimensions do not match shape size");
    ok(api->GetTensorSizeInBytes(value, &count));
    assert_int_equal(count, sizeof data);
    ok(api->GetTensorElementTypeAndShapeDataReference(value, &yes, &shape, &count));
    assert_true(yes == FLOAT && count == 2 && shape[1] == 3);
    ok(api->GetTensorMemoryInfo(value, &where));
    ok(api->MemoryInfoGetName(where, &name));
    assert_string_equal(name, "Cpu");
    check_shape(value, FLOAT, 2, dims, 6);
    api->ReleaseValue(value);
    api->ReleaseValue(NULL);
}

static void test_invalid_tensors(void **state)
{
    static const int64_t dims[] = { 2, 3 }, negative[] = { 2, -3 }, huge[] = { INT64_MAX / 2, 8 };
    float data[6];
    OrtValue *value = NULL;

    (void)state;
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), data, 20, dims, 2, FLOAT, &value), ORT_INVALID_ARGUMENT,
          "not enough space");
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), data, 24, negative, 2, FLOAT, &value), ORT_INVALID_ARGUMENT,
          "tried creating tensor with negative value in shape");
    assert_null(value);
    if (!ours())
        return;
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), data, 24, huge, 2, FLOAT, &value), ORT_INVALID_ARGUMENT,
          "more bytes");
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), data, 24, dims, 2, 99, &value), ORT_NOT_IMPLEMENTED,
          "tensor type 99 is not supported");
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), NULL, 24, dims, 2, FLOAT, &value), ORT_INVALID_ARGUMENT, "NULL");
    fails(api->CreateTensorWithDataAsOrtValue(cpu(), data, 24, dims, 2, STRING, &value), ORT_INVALID_ARGUMENT,
          "strings");
    fails(api->CreateTensorAsOrtValue(NULL, dims, 2, FLOAT, &value), ORT_INVALID_ARGUMENT, "allocator is NULL");
    assert_null(value);
}

/* Every element type with a number in the interface. */
static void test_element_types(void **state)
{
    static const int64_t dims[] = { 3 };

    (void)state;
    for (int type = 1; type < ORT_DTYPE_COUNT; type++) {
        OrtValue *value = NULL;

        if ((type == 14 || type == 15 || type > 23) && !ours())
            continue; /* ONNX Runtime hardly supports complex numbers and the newest types */

        ok(api->CreateTensorAsOrtValue(allocator, dims, 1, type, &value));
        check_shape(value, type, 1, dims, 3);
        api->ReleaseValue(value);
    }
}

static int held;
static const OrtMemoryInfo *own_info(const OrtAllocator *self)
{
    (void)self;
    return cpu();
}
static void *own_alloc(OrtAllocator *self, size_t bytes)
{
    (void)self;
    held++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void own_free(OrtAllocator *self, void *elements)
{
    (void)self;
    held -= elements != NULL;
    free(elements);
}
static OrtAllocator own = { .version = 16, .Alloc = own_alloc, .Free = own_free, .Info = own_info };

static void test_allocator_of_the_program(void **state)
{
    static const int64_t dims[] = { 4, 2 };
    OrtValue *value = NULL;
    void *elements, *q;

    (void)state;
    ok(api->CreateTensorAsOrtValue(&own, dims, 2, FLOAT, &value));
    assert_int_equal(held, 1);
    ok(api->GetTensorMutableData(value, &elements));
    memset(elements, 0, 32);
    api->ReleaseValue(value);
    assert_int_equal(held, 0);

    q = own_alloc(&own, 32);
    ok(api->CreateTensorWithDataAndDeleterAsOrtValue(&own, q, 32, dims, 2, FLOAT, &value));
    ok(api->GetTensorMutableData(value, &elements));
    assert_ptr_equal(elements, q);
    check_shape(value, FLOAT, 2, dims, 8);
    api->ReleaseValue(value);
    assert_int_equal(held, 0);
}

static void test_default_allocator(void **state)
{
    const OrtMemoryInfo *info;
    OrtKeyValuePairs *stats;
    void *elements;
    int number;

    (void)state;
    ok(api->AllocatorAlloc(allocator, 100, &elements));
    memset(elements, 1, 100);
    ok(api->AllocatorFree(allocator, elements));
    ok(api->AllocatorGetInfo(allocator, &info));
    ok(api->MemoryInfoGetType(info, &number));
    ok(api->MemoryInfoGetId(info, &number));
    assert_int_equal(number, 0);
    ok(api->MemoryInfoGetMemType(info, &number));
    assert_int_equal(number, ORT_MEM_DEFAULT);
    if (ours()) {
        ok(api->AllocatorGetStats(allocator, &stats));
        api->ReleaseKeyValuePairs(stats);
    }
}

static void test_memory_info(void **state)
{
    OrtMemoryInfo *a, *b, *info;
    int number;

    (void)state;
    ok(api->CreateMemoryInfo("Cpu", ORT_ARENA_ALLOCATOR, 0, ORT_MEM_DEFAULT, &a));
    ok(api->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEM_DEFAULT, &b));
    ok(api->CreateCpuMemoryInfo(ORT_DEVICE_ALLOCATOR, ORT_MEM_DEFAULT, &info));
    ok(api->CompareMemoryInfo(a, b, &number));
    assert_int_equal(number, 0);
    ok(api->CompareMemoryInfo(a, info, &number));
    assert_int_not_equal(number, 0);
    api->MemoryInfoGetDeviceType(a, &number);
    assert_int_equal(number, 0);
    assert_int_equal(api->MemoryInfoGetDeviceMemType(a), 0);
    assert_int_equal(api->MemoryInfoGetVendorId(a), 0);
    api->ReleaseMemoryInfo(a);
    api->ReleaseMemoryInfo(b);
    api->ReleaseMemoryInfo(info);
    fails(api->CreateMemoryInfo("Abacus", ORT_ARENA_ALLOCATOR, 0, ORT_MEM_DEFAULT, &a), ORT_INVALID_ARGUMENT,
          "Specified device is not supported");
    ok(api->CreateMemoryInfo_V2("Cpu", 0, 0, 0, 0, 0, ORT_DEVICE_ALLOCATOR, &a));
    api->ReleaseMemoryInfo(a);
}

static void test_strings(void **state)
{
    static const int64_t dims[] = { 3 };
    static const char *const texts[] = { "one", "", "three" };
    size_t offsets[3], count;
    char all[16], *room;
    OrtValue *value = NULL;

    (void)state;
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &value));
    ok(api->FillStringTensor(value, texts, 3));
    ok(api->GetStringTensorDataLength(value, &count));
    assert_int_equal(count, 8);
    ok(api->GetStringTensorContent(value, all, count, offsets, 3));
    assert_memory_equal(all, "onethree", 8);
    assert_true(offsets[0] == 0 && offsets[1] == 3 && offsets[2] == 3);
    fails(api->GetStringTensorContent(value, all, 7, offsets, 3), ORT_FAIL, "");
    fails(api->GetStringTensorContent(value, all, 8, offsets, 2), ORT_FAIL, "");
    ok(api->FillStringTensorElement(value, "two", 1));
    ok(api->GetStringTensorElementLength(value, 1, &count));
    assert_int_equal(count, 3);
    ok(api->GetStringTensorElement(value, 3, 1, all));
    assert_memory_equal(all, "two", 3);
    ok(api->GetResizedStringTensorElementBuffer(value, 0, 4, &room));
    memcpy(room, "four", 4);
    ok(api->GetStringTensorElement(value, 4, 0, all));
    assert_memory_equal(all, "four", 4);
    if (ours()) {
        fails(api->GetResizedStringTensorElementBuffer(value, 0, SIZE_MAX, &room), ORT_FAIL, "out of memory");
        fails(api->GetStringTensorContent(value, all, sizeof all, NULL, 3), ORT_INVALID_ARGUMENT, "offsets is NULL");
        fails(api->FillStringTensor(value, NULL, 3), ORT_INVALID_ARGUMENT, "s is NULL");
    }
    fails(api->FillStringTensor(value, texts, 2), ORT_INVALID_ARGUMENT, "input array doesn't equal tensor size");
    fails(api->GetStringTensorElementLength(value, 3, &count), ORT_INVALID_ARGUMENT, "index is out of bounds");
    fails(api->FillStringTensorElement(value, "x", 3), ORT_INVALID_ARGUMENT, "index is out of bounds");
    fails(api->GetTensorSizeInBytes(value, &count), ORT_INVALID_ARGUMENT, "tring tensors are not supported");
    api->ReleaseValue(value);
}

/* The layout of libstdc++'s std::string, the type of the elements, to assign to them as C++ programs do. */
struct object {
    char *data;
    size_t bytes;
    union {
        char local[16];
        size_t capacity;
    } rest;
};

static void assign(struct object *object, const char *text)
{
    if (object->data != object->rest.local)
        free(object->data);
    object->bytes = object->rest.capacity = strlen(text);
    object->data = strdup(text);
}

static void check_element(const OrtValue *value, size_t index, const char *expected)
{
    char text[64] = "";

    ok(api->GetStringTensorElement(value, sizeof text - 1, index, text));
    assert_string_equal(text, expected);
}

static void test_objects_of_strings(void **state)
{
    static const int64_t dims[] = { 2 };
    static const char *const texts[] = { "short", "a text that is too long for the object" };
    struct object *objects, *again;
    struct wire wire = { 0 };
    wire_mark graph = mw_begin(&wire, 8, 17);
    OrtSession *session;
    OrtValue *value = NULL, *result, *sequence, *item;
    const OrtValue *items[1];

    (void)state;
    ok(api->CreateTensorAsOrtValue(allocator, dims, 1, STRING, &value));
    ok(api->FillStringTensor(value, texts, 2));
    ok(api->GetTensorMutableData(value, (void **)&objects));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(objects[i].bytes, strlen(texts[i]));
        assert_memory_equal(objects[i].data, texts[i], objects[i].bytes + 1);
    }
    assign(&objects[0], "assigned by the program");
    assign(&objects[1], "");
    check_element(value, 0, "assigned by the program");
    check_element(value, 1, "");
    ok(api->FillStringTensorElement(value, "filled", 1));
    ok(api->GetTensorMutableData(value, (void **)&again));
    assert_ptr_equal(again, objects);
    assert_memory_equal(objects[1].data, "filled", objects[1].bytes + 1);

    /* a run reads the objects, also those of a result */
    mw_value(&wire, MW_INPUT, "x", STRING, "2");
    mw_node(&wire, "Identity", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", STRING, "2");
    wire_end(&wire, graph);
    session = session_of(&wire, NULL);
    assign(&objects[1], "before the run");
    result = run1(session, "x", value, "y");
    check_element(result, 1, "before the run");
    ok(api->GetTensorMutableData(result, (void **)&again));
    assign(&again[0], "a result");
    check_element(result, 0, "a result");
    ok(api->FillStringTensorElement(result, "changed", 1));
    api->ReleaseValue(value);
    value = run1(session, "x", result, "y");
    check_element(value, 0, "a result");
    check_element(value, 1, "changed");
    items[0] = result;
    ok(api->CreateValue(items, 1, ONNX_TYPE_SEQUENCE, &sequence));
    ok(api->GetValue(sequence, 0, allocator, &item));
    check_element(item, 1, "changed");
    api->ReleaseValue(item);
    api->ReleaseValue(sequence);
    api->ReleaseValue(value);
    api->ReleaseValue(result);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static void test_sequences(void **state)
{
    static const int64_t dims[] = { 2 };
    float a[2] = { 1, 2 }, b[2] = { 3, 4 };
    const OrtValue *items[2] = { tensor(FLOAT, dims, 1, a, sizeof a), tensor(FLOAT, dims, 1, b, sizeof b) };
    OrtValue *list = NULL, *item = NULL;
    const OrtSequenceTypeInfo *sequence;
    OrtTypeInfo *type, *element;
    size_t count;
    void *elements;
    int kind;

    (void)state;
    ok(api->CreateValue(items, 2, ONNX_TYPE_SEQUENCE, &list));
    api->ReleaseValue((OrtValue *)(uintptr_t)items[0]); /* the list has references */
    api->ReleaseValue((OrtValue *)(uintptr_t)items[1]);
    ok(api->GetValueCount(list, &count));
    assert_int_equal(count, 2);
    ok(api->GetValue(list, 1, allocator, &item));
    ok(api->GetTensorMutableData(item, &elements));
    assert_float_equal(((float *)elements)[1], 4, 0);
    api->ReleaseValue(item);
    fails(api->GetValue(list, 2, allocator, &item), ORT_FAIL, "");
    ok(api->GetValueType(list, &kind));
    assert_int_equal(kind, ONNX_TYPE_SEQUENCE);
    ok(api->GetTypeInfo(list, &type));
    ok(api->CastTypeInfoToSequenceTypeInfo(type, &sequence));
    ok(api->GetSequenceElementType(sequence, &element));
    ok(api->GetOnnxTypeFromTypeInfo(element, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    api->ReleaseTypeInfo(element);
    api->ReleaseTypeInfo(type);
    api->ReleaseValue(list);
    fails(api->CreateValue(items, 0, ONNX_TYPE_SEQUENCE, &list), ORT_FAIL, "Number of values should be at least 1");
}

/* y = DictVectorizer(x) with x a map of int64 to floats. */
static void write_vectorizer(struct wire *wire)
{
    static const int64_t keys[] = { 9, 7, 5 };
    wire_mark graph, value, type, map, inner, tensor_mark, node, attribute;

    wire_int(wire, 1, 8);
    mw_opset(wire, 8, "", 17);
    mw_opset(wire, 8, "ai.onnx.ml", 1);
    graph = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    value = wire_begin(wire, MW_INPUT);
    wire_text(wire, 1, "x");
    type = wire_begin(wire, 2);
    map = wire_begin(wire, 5);
    wire_int(wire, 1, INT64);
    inner = wire_begin(wire, 2);
    tensor_mark = wire_begin(wire, 1);
    wire_int(wire, 1, FLOAT);
    wire_end(wire, tensor_mark);
    wire_end(wire, inner);
    wire_end(wire, map);
    wire_end(wire, type);
    wire_end(wire, value);
    node = mw_node_begin(wire, "DictVectorizer", "x", "y");
    wire_text(wire, 7, "ai.onnx.ml");
    attribute = wire_begin(wire, 5);
    wire_text(wire, 1, "int64_vocabulary");
    wire_int(wire, 20, 7);
    for (size_t i = 0; i < 3; i++)
        wire_int(wire, 8, keys[i]);
    wire_end(wire, attribute);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "1,3");
    wire_end(wire, graph);
}

/* A map as the input of a run; one with other keys is refused. */
static void run_maps(const OrtValue *map)
{
    const int64_t dims[] = { 2 };
    double others[] = { 1, 2 };
    int64_t keys[] = { 1, 2 };
    const OrtValue *parts[2] = { tensor(INT64, dims, 1, keys, sizeof keys),
                                 tensor(DOUBLE, dims, 1, others, sizeof others) };
    OrtSessionOptions *options = NULL;
    const char *const name = "x", *const output = "y";
    struct wire wire = { 0 };
    OrtValue *other = NULL, *result = NULL;
    OrtSession *session;
    float *elements;

    ok(api->CreateSessionOptions(&options));
    write_vectorizer(&wire);
    session = session_of(&wire, options);
    wire_deinit(&wire);
    result = run1(session, "x", map, "y");
    ok(api->GetTensorMutableData(result, (void **)&elements));
    assert_true(elements[0] == 0.25f && elements[1] == 0.5f && elements[2] == 0);
    api->ReleaseValue(result);
    ok(api->CreateValue(parts, 2, ONNX_TYPE_MAP, &other));
    result = NULL;
    fails(api->Run(session, NULL, &name, (const OrtValue *const *)&other, 1, &output, 1, &result), ORT_INVALID_ARGUMENT,
          "Unexpected input data type");
    api->ReleaseValue(other);
    api->ReleaseValue((OrtValue *)(uintptr_t)parts[0]);
    api->ReleaseValue((OrtValue *)(uintptr_t)parts[1]);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

static void test_maps(void **state)
{
    static const int64_t dims[] = { 2 };
    int64_t keys[2] = { 7, 9 };
    float values[2] = { 0.5f, 0.25f };
    const OrtValue *parts[2] = { tensor(INT64, dims, 1, keys, sizeof keys),
                                 tensor(FLOAT, dims, 1, values, sizeof values) };
    const OrtMapTypeInfo *map_type;
    OrtValue *map = NULL, *part;
    OrtTypeInfo *type, *inner;
    size_t count;
    void *elements;
    int kind;

    (void)state;
    ok(api->CreateValue(parts, 2, ONNX_TYPE_MAP, &map));
    ok(api->GetValueCount(map, &count));
    assert_int_equal(count, 2);
    ok(api->GetValue(map, 0, allocator, &part));
    ok(api->GetTensorMutableData(part, &elements));
    assert_true(((int64_t *)elements)[0] == 7 && ((int64_t *)elements)[1] == 9);
    api->ReleaseValue(part);
    ok(api->GetTypeInfo(map, &type));
    ok(api->CastTypeInfoToMapTypeInfo(type, &map_type));
    ok(api->GetMapKeyType(map_type, &kind));
    assert_int_equal(kind, INT64);
    ok(api->GetMapValueType(map_type, &inner));
    api->ReleaseTypeInfo(inner);
    api->ReleaseTypeInfo(type);
    run_maps(map);
    api->ReleaseValue(map);
    fails(api->CreateValue(parts, 1, ONNX_TYPE_MAP, &map), ours() ? ORT_INVALID_ARGUMENT : ORT_FAIL, "");
    api->ReleaseValue((OrtValue *)(uintptr_t)parts[0]);
    api->ReleaseValue((OrtValue *)(uintptr_t)parts[1]);
}

static void test_sparse(void **state)
{
    static const int64_t dims[] = { 3, 3 }, values_dims[] = { 2 }, coo[] = { 1, 5 }, inner[] = { 1, 2 },
                         outer[] = { 0, 1, 2, 2 };
    static const float values[] = { 1.5f, 2.5f };
    OrtTensorTypeAndShapeInfo *info;
    const void *elements;
    OrtValue *value;
    size_t count;
    int kind;

    (void)state;
    ok(api->CreateSparseTensorAsOrtValue(allocator, dims, 2, FLOAT, &value));
    ok(api->IsSparseTensor(value, &kind));
    assert_int_equal(kind, 1);
    ok(api->IsTensor(value, &kind));
    assert_int_equal(kind, 0);
    ok(api->FillSparseTensorCoo(value, cpu(), values_dims, 1, values, coo, 2));
    ok(api->GetSparseTensorFormat(value, &kind));
    assert_int_equal(kind, ORT_SPARSE_COO);
    ok(api->GetSparseTensorValues(value, &elements));
    assert_float_equal(((const float *)elements)[1], 2.5f, 0);
    ok(api->GetSparseTensorIndices(value, ORT_SPARSE_COO_INDICES, &count, &elements));
    assert_true(count == 2 && ((const int64_t *)elements)[1] == 5);
    ok(api->GetSparseTensorIndicesTypeShape(value, ORT_SPARSE_COO_INDICES, &info));
    ok(api->GetTensorElementType(info, &kind));
    assert_int_equal(kind, INT64);
    api->ReleaseTensorTypeAndShapeInfo(info);
    ok(api->GetSparseTensorValuesTypeAndShape(value, &info));
    ok(api->GetTensorShapeElementCount(info, &count));
    assert_int_equal(count, 2);
    api->ReleaseTensorTypeAndShapeInfo(info);
    check_shape(value, FLOAT, 2, dims, 9);
    api->ReleaseValue(value);

    ok(api->CreateSparseTensorWithValuesAsOrtValue(cpu(), (void *)(uintptr_t)values, dims, 2, values_dims, 1, FLOAT,
                                                   &value));
    ok(api->UseCsrIndices(value, (int64_t *)(uintptr_t)inner, 2, (int64_t *)(uintptr_t)outer, 4));
    ok(api->GetSparseTensorIndices(value, ORT_SPARSE_CSR_OUTER_INDICES, &count, &elements));
    assert_true(count == 4 && elements == outer);
    ok(api->GetSparseTensorValues(value, &elements));
    assert_ptr_equal(elements, values);
    api->ReleaseValue(value);

    if (!ours())
        return;
    ok(api->CreateSparseTensorAsOrtValue(allocator, dims, 2, FLOAT, &value));
    fails(api->FillSparseTensorCsr(value, cpu(), values_dims, 1, values, inner, 2, NULL, 4), ORT_INVALID_ARGUMENT,
          "is NULL");
    ok(api->UseCsrIndices(value, (int64_t *)(uintptr_t)inner, 2, (int64_t *)(uintptr_t)outer, 4));
    api->ReleaseValue(value); /* and the inner indices that the failed call copied */
}

static void test_shapes_made_by_programs(void **state)
{
    static const int64_t dims[] = { 4, -1 };
    const char *names[2] = { "", "n" }, *got[2];
    OrtTensorTypeAndShapeInfo *info;
    size_t count;

    (void)state;
    ok(api->CreateTensorTypeAndShapeInfo(&info));
    ok(api->SetTensorElementType(info, DOUBLE));
    ok(api->SetDimensions(info, dims, 2));
    ok(api->SetSymbolicDimensions(info, names, 2));
    ok(api->GetDimensionsCount(info, &count));
    assert_int_equal(count, 2);
    ok(api->GetSymbolicDimensions(info, got, 2));
    assert_string_equal(got[1], "n");
    api->ReleaseTensorTypeAndShapeInfo(info);
}

static void test_pairs(void **state)
{
    const char *const *keys, *const *values;
    OrtKeyValuePairs *pairs;
    size_t count;

    (void)state;
    api->CreateKeyValuePairs(&pairs);
    api->AddKeyValuePair(pairs, "a", "1");
    api->AddKeyValuePair(pairs, "b", "2");
    api->AddKeyValuePair(pairs, "a", "3");
    assert_string_equal(api->GetKeyValue(pairs, "a"), "3");
    assert_null(api->GetKeyValue(pairs, "c"));
    api->RemoveKeyValuePair(pairs, "a");
    api->GetKeyValuePairs(pairs, &keys, &values, &count);
    assert_int_equal(count, 1);
    assert_string_equal(keys[0], "b");
    assert_string_equal(values[0], "2");
    api->ReleaseKeyValuePairs(pairs);
}

static void test_attributes_made_by_programs(void **state)
{
    static const int64_t ints[] = { 3, -4 };
    static const char *const texts[] = { "a", "bc" };
    OrtOpAttr *attribute;
    int64_t got[2];
    char text[8];
    size_t count;
    int kind;

    (void)state;
    ok(api->CreateOpAttr("axes", ints, 2, ORT_OP_ATTR_INTS, &attribute));
    ok(api->ReadOpAttr(attribute, ORT_OP_ATTR_INTS, got, sizeof got, &count));
    assert_true(count == sizeof got && got[1] == -4);
    fails(api->ReadOpAttr(attribute, ORT_OP_ATTR_INTS, got, 8, &count), ORT_INVALID_ARGUMENT, "not large enough");
    ok(api->OpAttr_GetType(attribute, &kind));
    assert_int_equal(kind, ORT_OP_ATTR_INTS);
    api->ReleaseOpAttr(attribute);
    ok(api->CreateOpAttr("names", texts, 2, ORT_OP_ATTR_STRINGS, &attribute));
    ok(api->ReadOpAttr(attribute, ORT_OP_ATTR_STRINGS, text, sizeof text, &count));
    assert_true(count == 5 && memcmp(text, "a\0bc", 5) == 0);
    api->ReleaseOpAttr(attribute);
}

static void test_copies_between_tensors(void **state)
{
    static const int64_t dims[] = { 2 };
    float a[2] = { 1, 2 }, b[2] = { 0 };
    OrtValue *from = tensor(FLOAT, dims, 1, a, sizeof a), *to = tensor(FLOAT, dims, 1, b, sizeof b);
    const OrtValue *sources[] = { from };

    (void)state;
    if (ours()) {
        ok(api->CopyTensors(env, sources, &to, NULL, 1));
        assert_float_equal(b[1], 2, 0);
    }
    api->ReleaseValue(from);
    api->ReleaseValue(to);
}

static void test_devices_and_providers(void **state)
{
    const OrtEpDevice *const *devices;
    char **names;
    size_t count;
    int provider_count;
    OrtCompiledModelCompatibility compatibility;
    OrtDeviceEpIncompatibilityDetails *details;
    uint32_t reasons;
    int32_t error_code;
    const char *notes;

    (void)state;
    ok(api->GetAvailableProviders(&names, &provider_count));
    assert_true(provider_count >= 1);
    assert_string_equal(names[provider_count - 1], "CPUExecutionProvider");
    ok(api->ReleaseAvailableProviders(names, provider_count));
    ok(api->GetEpDevices(env, &devices, &count));
    assert_true(count >= 1);
    assert_string_equal(api->EpDevice_EpName(devices[0]), "CPUExecutionProvider");
    assert_int_equal(api->HardwareDevice_Type(api->EpDevice_Device(devices[0])), 0);
    assert_true(strlen(api->HardwareDevice_Vendor(api->EpDevice_Device(devices[0]))) > 0);
    ok(api->GetModelCompatibilityForEpDevices(devices, 1, "any", &compatibility));
    assert_int_equal(compatibility, ORT_COMPATIBILITY_NOT_APPLICABLE);
    fails(api->GetModelCompatibilityForEpDevices(devices, 0, "any", &compatibility), ORT_INVALID_ARGUMENT, "");
    ok(api->GetHardwareDeviceEpIncompatibilityDetails(env, "CPUExecutionProvider", api->EpDevice_Device(devices[0]),
                                                      &details));
    ok(api->DeviceEpIncompatibilityDetails_GetReasonsBitmask(details, &reasons));
    assert_int_equal(reasons, 0);
    ok(api->DeviceEpIncompatibilityDetails_GetNotes(details, &notes));
    assert_true(notes == NULL || notes[0] == '\0');
    ok(api->DeviceEpIncompatibilityDetails_GetErrorCode(details, &error_code));
    assert_int_equal(error_code, 0);
    api->ReleaseDeviceEpIncompatibilityDetails(details);
    fails(api->GetHardwareDeviceEpIncompatibilityDetails(env, "NoProvider", api->EpDevice_Device(devices[0]), &details),
          ORT_INVALID_ARGUMENT, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_tensor_over_the_programs_memory),
        cmocka_unit_test(test_invalid_tensors),
        cmocka_unit_test(test_element_types),
        cmocka_unit_test(test_allocator_of_the_program),
        cmocka_unit_test(test_default_allocator),
        cmocka_unit_test(test_memory_info),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_objects_of_strings),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_shapes_made_by_programs),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_attributes_made_by_programs),
        cmocka_unit_test(test_copies_between_tensors),
        cmocka_unit_test(test_devices_and_providers),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
