/* Values, types and memory, without a session. */
#include "same.h"

static void tensors(void)
{
    static const int64_t dims[] = { 2, 3 }, place[] = { 1, 2 }, beyond[] = { 2, 0 }, negative[] = { -1, 3 };
    float data[6] = { 0, 1, 2, 3, 4, 5 };
    OrtValue *value = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, data, sizeof data, 2, dims), *other = NULL;
    const OrtMemoryInfo *where = NULL;
    enum ONNXType kind;
    const char *name;
    void *elements = NULL;
    int yes = -1;

    if (CALL(IsTensor, value, &yes))
        print_line("%d", yes);
    if (CALL(HasValue, value, &yes))
        print_line("%d", yes);
    if (CALL(IsSparseTensor, value, &yes))
        print_line("%d", yes);
    if (CALL(GetValueType, value, &kind))
        print_line("%d", (int)kind);
    if (CALL(GetTensorMutableData, value, &elements))
        print_line("the same memory: %d", elements == data);
    if (CALL(TensorAt, value, place, 2, &elements))
        print_line("element %g", *(float *)elements);
    CALL(TensorAt, value, beyond, 2, &elements);
    CALL(TensorAt, value, place, 1, &elements);
    if (CALL(GetTensorMemoryInfo, value, &where) && CALL(MemoryInfoGetName, where, &name))
        print_line("%s", name);
    print_floats(value);
    USE(ReleaseValue, value);
    CALL(CreateTensorWithDataAsOrtValue, cpu(), data, 20, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &other);
    CALL(CreateTensorWithDataAsOrtValue, cpu(), data, 24, negative, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &other);
    for (int type = 1; type <= 22; type++) {
        OrtTensorTypeAndShapeInfo *info = NULL;

        if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128)
            continue; /* ONNX Runtime hardly supports these */
        print_line("element type %d", type);
        if (!CALL(CreateTensorAsOrtValue, allocator, dims, 2, (ONNXTensorElementDataType)type, &other))
            continue;
        if (CALL(GetTensorTypeAndShape, other, &info))
            print_shape(info);
        USE(ReleaseTensorTypeAndShapeInfo, info);
        USE(ReleaseValue, other);
    }
}

static void texts(void)
{
    static const int64_t dims[] = { 3 };
    static const char *const words[] = { "one", "", "three" };
    size_t offsets[3] = { 0 }, bytes = 0;
    char all[16] = "", *room = NULL;
    OrtValue *value = NULL;

    CALL(CreateTensorAsOrtValue, allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value);
    CALL(FillStringTensor, value, words, 3);
    if (CALL(GetStringTensorDataLength, value, &bytes))
        print_line("%zu bytes", bytes);
    if (CALL(GetStringTensorContent, value, all, bytes, offsets, 3))
        print_line("'%.8s' at %zu %zu %zu", all, offsets[0], offsets[1], offsets[2]);
    CALL(GetStringTensorContent, value, all, 7, offsets, 3);
    CALL(FillStringTensorElement, value, "two", 1);
    if (CALL(GetStringTensorElementLength, value, 1, &bytes))
        print_line("%zu bytes", bytes);
    if (CALL(GetStringTensorElement, value, 3, 1, all))
        print_line("'%.3s'", all);
    if (CALL(GetResizedStringTensorElementBuffer, value, 0, 4, &room)) {
        memcpy(room, "four", 4);
        if (CALL(GetStringTensorElement, value, 4, 0, all))
            print_line("'%.4s'", all);
    }
    CALL(FillStringTensor, value, words, 2);
    CALL(GetStringTensorElementLength, value, 3, &bytes);
    CALL(FillStringTensorElement, value, "x", 3);
    USE(ReleaseValue, value);
}

static void lists(void)
{
    static const int64_t dims[] = { 2 };
    float a[2] = { 1, 2 }, b[2] = { 3, 4 };
    int64_t keys[2] = { 7, 9 };
    const OrtValue *items[2] = { over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, a, sizeof a, 1, dims),
                                 over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, b, sizeof b, 1, dims) };
    const OrtValue *parts[2] = { over(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, keys, sizeof keys, 1, dims), items[1] };
    OrtValue *list = NULL, *item = NULL;
    OrtTypeInfo *type = NULL;
    size_t size = 0;

    if (CALL(CreateValue, items, 2, ONNX_TYPE_SEQUENCE, &list)) {
        if (CALL(GetValueCount, list, &size))
            print_line("%zu items", size);
        if (CALL(GetValue, list, 1, allocator, &item)) {
            print_floats(item);
            USE(ReleaseValue, item);
        }
        CALL(GetValue, list, 2, allocator, &item);
        if (CALL(GetTypeInfo, list, &type)) {
            print_type(type);
            USE(ReleaseTypeInfo, type);
        }
        USE(ReleaseValue, list);
    }
    CALL(CreateValue, items, 0, ONNX_TYPE_SEQUENCE, &list);
    if (CALL(CreateValue, parts, 2, ONNX_TYPE_MAP, &list)) {
        if (CALL(GetValueCount, list, &size))
            print_line("%zu parts", size);
        if (CALL(GetValue, list, 1, allocator, &item)) {
            print_floats(item);
            USE(ReleaseValue, item);
        }
        if (CALL(GetTypeInfo, list, &type)) {
            print_type(type);
            USE(ReleaseTypeInfo, type);
        }
        USE(ReleaseValue, list);
    }
    USE(ReleaseValue, (OrtValue *)(uintptr_t)items[0]);
    USE(ReleaseValue, (OrtValue *)(uintptr_t)items[1]);
    USE(ReleaseValue, (OrtValue *)(uintptr_t)parts[0]);
}

void values(void)
{
    tensors();
    texts();
    lists();
}

void types(void)
{
    static const int64_t dims[] = { 4, -1 };
    static const int64_t ints[] = { 3, -4 };
    static const char *const words[] = { "a", "bc" };
    const char *names[2] = { "", "n" };
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtOpAttr *attribute = NULL;
    int64_t got[2] = { 0 };
    char text[8] = "";
    size_t bytes = 0;

    CALL(CreateTensorTypeAndShapeInfo, &info);
    CALL(SetTensorElementType, info, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE);
    CALL(SetDimensions, info, dims, 2);
    CALL(SetSymbolicDimensions, info, names, 2);
    print_shape(info);
    USE(ReleaseTensorTypeAndShapeInfo, info);

    if (CALL(CreateOpAttr, "axes", ints, 2, ORT_OP_ATTR_INTS, &attribute)) {
        if (CALL(ReadOpAttr, attribute, ORT_OP_ATTR_INTS, got, sizeof got, &bytes))
            print_line("%zu bytes: %lld %lld", bytes, (long long)got[0], (long long)got[1]);
        CALL(ReadOpAttr, attribute, ORT_OP_ATTR_INTS, got, 8, &bytes);
        USE(ReleaseOpAttr, attribute);
    }
    if (CALL(CreateOpAttr, "names", words, 2, ORT_OP_ATTR_STRINGS, &attribute)) {
        if (CALL(ReadOpAttr, attribute, ORT_OP_ATTR_STRINGS, text, sizeof text, &bytes))
            print_line("%zu bytes: '%s' '%s'", bytes, text, text + 2);
        USE(ReleaseOpAttr, attribute);
    }
}

static int held;

static void *ORT_API_CALL own_alloc(OrtAllocator *self, size_t bytes)
{
    (void)self;
    held++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void ORT_API_CALL own_free(OrtAllocator *self, void *elements)
{
    (void)self;
    held -= elements != NULL;
    free(elements);
}
static const OrtMemoryInfo *ORT_API_CALL own_info(const OrtAllocator *self)
{
    (void)self;
    return cpu();
}

static void infos(void)
{
    OrtMemoryInfo *a = NULL, *b = NULL, *c = NULL;
    OrtMemoryInfoDeviceType device;
    OrtAllocatorType type;
    OrtMemType kind;
    const char *name;
    int size = -1;

    CALL(CreateMemoryInfo, "Cpu", OrtArenaAllocator, 0, OrtMemTypeDefault, &a);
    CALL(CreateCpuMemoryInfo, OrtArenaAllocator, OrtMemTypeDefault, &b);
    CALL(CreateCpuMemoryInfo, OrtDeviceAllocator, OrtMemTypeDefault, &c);
    if (CALL(CompareMemoryInfo, a, b, &size))
        print_line("%d", size != 0);
    if (CALL(CompareMemoryInfo, a, c, &size))
        print_line("%d", size != 0);
    if (CALL(MemoryInfoGetName, a, &name))
        print_line("%s", name);
    if (CALL(MemoryInfoGetId, a, &size))
        print_line("%d", size);
    if (CALL(MemoryInfoGetMemType, a, &kind))
        print_line("%d", (int)kind);
    if (CALL(MemoryInfoGetType, a, &type))
        print_line("%d", (int)type);
    USE(MemoryInfoGetDeviceType, a, &device);
    print_line("device %d", (int)device);
    USE(ReleaseMemoryInfo, a);
    USE(ReleaseMemoryInfo, b);
    USE(ReleaseMemoryInfo, c);
    CALL(CreateMemoryInfo, "Abacus", OrtArenaAllocator, 0, OrtMemTypeDefault, &a);
}

void memory(void)
{
    static const int64_t dims[] = { 4, 2 };
    OrtAllocator own = { .version = 16, .Alloc = own_alloc, .Free = own_free, .Info = own_info };
    const OrtMemoryInfo *info = NULL;
    OrtValue *value = NULL;
    const char *name;
    void *elements = NULL;

    infos();
    if (CALL(AllocatorAlloc, allocator, 100, &elements)) {
        memset(elements, 1, 100);
        CALL(AllocatorFree, allocator, elements);
    }
    if (CALL(AllocatorGetInfo, allocator, &info) && CALL(MemoryInfoGetName, info, &name))
        print_line("%s", name);
    if (CALL(CreateTensorAsOrtValue, &own, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        print_line("%d blocks", held);
        USE(ReleaseValue, value);
        print_line("%d blocks", held);
    }
}

static void blocks(void)
{
    static const int64_t dims[] = { 4, 4 }, blocks_dims[] = { 2, 2, 1 }, index_dims[] = { 2, 1 }, few[] = { 1, 1 };
    static int32_t index[] = { 1, 0 };
    static float numbers[] = { 1, 2, 3, 4 };
    enum OrtSparseFormat format;
    OrtValue *value = NULL;

    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        CALL(FillSparseTensorBlockSparse, value, cpu(), blocks_dims, 3, numbers, index_dims, 2, index);
        if (CALL(GetSparseTensorFormat, value, &format))
            print_line("format %d", (int)format);
        USE(ReleaseValue, value);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, blocks_dims, 3,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        CALL(UseBlockSparseIndices, value, few, 2, index);
        CALL(UseBlockSparseIndices, value, index_dims, 2, index);
        if (CALL(GetSparseTensorFormat, value, &format))
            print_line("format %d", (int)format);
        USE(ReleaseValue, value);
    }
}

void sparse(void)
{
    static const int64_t dims[] = { 3, 3 }, count[] = { 2 }, coo[] = { 1, 5 };
    static int64_t inner[] = { 1, 2 }, outer[] = { 0, 1, 2, 2 };
    static float numbers[] = { 1.5f, 2.5f };
    OrtTensorTypeAndShapeInfo *info = NULL;
    enum OrtSparseFormat format;
    const void *elements = NULL;
    OrtValue *value = NULL;
    size_t size = 0;
    int yes = 0;

    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        if (CALL(IsSparseTensor, value, &yes))
            print_line("%d", yes);
        CALL(FillSparseTensorCoo, value, cpu(), count, 1, numbers, coo, 2);
        if (CALL(GetSparseTensorFormat, value, &format))
            print_line("format %d", (int)format);
        if (CALL(GetSparseTensorValues, value, &elements))
            print_line("%g %g", ((const float *)elements)[0], ((const float *)elements)[1]);
        if (CALL(GetSparseTensorIndices, value, ORT_SPARSE_COO_INDICES, &size, &elements))
            print_line("%zu: %lld %lld", size, (long long)((const int64_t *)elements)[0],
                       (long long)((const int64_t *)elements)[1]);
        if (CALL(GetSparseTensorIndicesTypeShape, value, ORT_SPARSE_COO_INDICES, &info))
            print_shape(info);
        USE(ReleaseTensorTypeAndShapeInfo, info);
        if (CALL(GetSparseTensorValuesTypeAndShape, value, &info))
            print_shape(info);
        USE(ReleaseTensorTypeAndShapeInfo, info);
        USE(ReleaseValue, value);
    }
    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        CALL(FillSparseTensorCsr, value, cpu(), count, 1, numbers, inner, 2, outer, 4);
        if (CALL(GetSparseTensorFormat, value, &format))
            print_line("format %d", (int)format);
        USE(ReleaseValue, value);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, count, 1,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        CALL(UseCsrIndices, value, inner, 2, outer, 4);
        if (CALL(GetSparseTensorIndices, value, ORT_SPARSE_CSR_OUTER_INDICES, &size, &elements))
            print_line("%zu, the same memory: %d", size, elements == outer);
        USE(ReleaseValue, value);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, count, 1,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)) {
        CALL(UseCooIndices, value, (int64_t *)(uintptr_t)coo, 2);
        if (CALL(GetSparseTensorFormat, value, &format))
            print_line("format %d", (int)format);
        USE(ReleaseValue, value);
    }
    blocks();
}
