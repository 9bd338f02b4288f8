/* Values, types and memory, without a session. */
#include "same.h"

static void tensors(void)
{
    static const int64_t dims[] = { 2, 3 }, place[] = { 1, 2 }, beyond[] = { 2, 0 }, negative[] = { -1, 3 };
    float data[6] = { 0, 1, 2, 3, 4, 5 };
    OrtValue *v = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, data, sizeof data, 2, dims), *other = NULL;
    const OrtMemoryInfo *where = NULL;
    enum ONNXType kind;
    const char *name;
    void *p = NULL;
    int yes = -1;

    if (CALL(IsTensor, v, &yes))
        tell("%d", yes);
    if (CALL(HasValue, v, &yes))
        tell("%d", yes);
    if (CALL(IsSparseTensor, v, &yes))
        tell("%d", yes);
    if (CALL(GetValueType, v, &kind))
        tell("%d", (int)kind);
    if (CALL(GetTensorMutableData, v, &p))
        tell("the same memory: %d", p == data);
    if (CALL(TensorAt, v, place, 2, &p))
        tell("element %g", *(float *)p);
    CALL(TensorAt, v, beyond, 2, &p);
    CALL(TensorAt, v, place, 1, &p);
    if (CALL(GetTensorMemoryInfo, v, &where) && CALL(MemoryInfoGetName, where, &name))
        tell("%s", name);
    tell_floats(v);
    USE(ReleaseValue, v);
    CALL(CreateTensorWithDataAsOrtValue, cpu(), data, 20, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &other);
    CALL(CreateTensorWithDataAsOrtValue, cpu(), data, 24, negative, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &other);
    for (int type = 1; type <= 22; type++) {
        OrtTensorTypeAndShapeInfo *info = NULL;

        if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128)
            continue; /* numbered, and not much more */
        tell("element type %d", type);
        if (!CALL(CreateTensorAsOrtValue, allocator, dims, 2, (ONNXTensorElementDataType)type, &other))
            continue;
        if (CALL(GetTensorTypeAndShape, other, &info))
            tell_shape(info);
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
    OrtValue *v = NULL;

    CALL(CreateTensorAsOrtValue, allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &v);
    CALL(FillStringTensor, v, words, 3);
    if (CALL(GetStringTensorDataLength, v, &bytes))
        tell("%zu bytes", bytes);
    if (CALL(GetStringTensorContent, v, all, bytes, offsets, 3))
        tell("'%.8s' at %zu %zu %zu", all, offsets[0], offsets[1], offsets[2]);
    CALL(GetStringTensorContent, v, all, 7, offsets, 3);
    CALL(FillStringTensorElement, v, "two", 1);
    if (CALL(GetStringTensorElementLength, v, 1, &bytes))
        tell("%zu bytes", bytes);
    if (CALL(GetStringTensorElement, v, 3, 1, all))
        tell("'%.3s'", all);
    if (CALL(GetResizedStringTensorElementBuffer, v, 0, 4, &room)) {
        memcpy(room, "four", 4);
        if (CALL(GetStringTensorElement, v, 4, 0, all))
            tell("'%.4s'", all);
    }
    CALL(FillStringTensor, v, words, 2);
    CALL(GetStringTensorElementLength, v, 3, &bytes);
    CALL(FillStringTensorElement, v, "x", 3);
    USE(ReleaseValue, v);
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
    size_t n = 0;

    if (CALL(CreateValue, items, 2, ONNX_TYPE_SEQUENCE, &list)) {
        if (CALL(GetValueCount, list, &n))
            tell("%zu items", n);
        if (CALL(GetValue, list, 1, allocator, &item)) {
            tell_floats(item);
            USE(ReleaseValue, item);
        }
        CALL(GetValue, list, 2, allocator, &item);
        if (CALL(GetTypeInfo, list, &type)) {
            tell_type(type);
            USE(ReleaseTypeInfo, type);
        }
        USE(ReleaseValue, list);
    }
    CALL(CreateValue, items, 0, ONNX_TYPE_SEQUENCE, &list);
    if (CALL(CreateValue, parts, 2, ONNX_TYPE_MAP, &list)) {
        if (CALL(GetValueCount, list, &n))
            tell("%zu parts", n);
        if (CALL(GetValue, list, 1, allocator, &item)) {
            tell_floats(item);
            USE(ReleaseValue, item);
        }
        if (CALL(GetTypeInfo, list, &type)) {
            tell_type(type);
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
    tell_shape(info);
    USE(ReleaseTensorTypeAndShapeInfo, info);

    if (CALL(CreateOpAttr, "axes", ints, 2, ORT_OP_ATTR_INTS, &attribute)) {
        if (CALL(ReadOpAttr, attribute, ORT_OP_ATTR_INTS, got, sizeof got, &bytes))
            tell("%zu bytes: %lld %lld", bytes, (long long)got[0], (long long)got[1]);
        CALL(ReadOpAttr, attribute, ORT_OP_ATTR_INTS, got, 8, &bytes);
        USE(ReleaseOpAttr, attribute);
    }
    if (CALL(CreateOpAttr, "names", words, 2, ORT_OP_ATTR_STRINGS, &attribute)) {
        if (CALL(ReadOpAttr, attribute, ORT_OP_ATTR_STRINGS, text, sizeof text, &bytes))
            tell("%zu bytes: '%s' '%s'", bytes, text, text + 2);
        USE(ReleaseOpAttr, attribute);
    }
}

/* ------------------------------------------------------------------ memory */

static int held;

static void *ORT_API_CALL own_alloc(OrtAllocator *self, size_t bytes)
{
    (void)self;
    held++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void ORT_API_CALL own_free(OrtAllocator *self, void *p)
{
    (void)self;
    held -= p != NULL;
    free(p);
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
    int n = -1;

    CALL(CreateMemoryInfo, "Cpu", OrtArenaAllocator, 0, OrtMemTypeDefault, &a);
    CALL(CreateCpuMemoryInfo, OrtArenaAllocator, OrtMemTypeDefault, &b);
    CALL(CreateCpuMemoryInfo, OrtDeviceAllocator, OrtMemTypeDefault, &c);
    if (CALL(CompareMemoryInfo, a, b, &n))
        tell("%d", n != 0);
    if (CALL(CompareMemoryInfo, a, c, &n))
        tell("%d", n != 0);
    if (CALL(MemoryInfoGetName, a, &name))
        tell("%s", name);
    if (CALL(MemoryInfoGetId, a, &n))
        tell("%d", n);
    if (CALL(MemoryInfoGetMemType, a, &kind))
        tell("%d", (int)kind);
    if (CALL(MemoryInfoGetType, a, &type))
        tell("%d", (int)type);
    USE(MemoryInfoGetDeviceType, a, &device);
    tell("device %d", (int)device);
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
    OrtValue *v = NULL;
    const char *name;
    void *p = NULL;

    infos();
    if (CALL(AllocatorAlloc, allocator, 100, &p)) {
        memset(p, 1, 100);
        CALL(AllocatorFree, allocator, p);
    }
    if (CALL(AllocatorGetInfo, allocator, &info) && CALL(MemoryInfoGetName, info, &name))
        tell("%s", name);
    if (CALL(CreateTensorAsOrtValue, &own, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        tell("%d blocks", held);
        USE(ReleaseValue, v);
        tell("%d blocks", held);
    }
}

static void blocks(void)
{
    static const int64_t dims[] = { 4, 4 }, blocks_dims[] = { 2, 2, 1 }, index_dims[] = { 2, 1 }, few[] = { 1, 1 };
    static int32_t index[] = { 1, 0 };
    static float numbers[] = { 1, 2, 3, 4 };
    enum OrtSparseFormat format;
    OrtValue *v = NULL;

    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        CALL(FillSparseTensorBlockSparse, v, cpu(), blocks_dims, 3, numbers, index_dims, 2, index);
        if (CALL(GetSparseTensorFormat, v, &format))
            tell("format %d", (int)format);
        USE(ReleaseValue, v);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, blocks_dims, 3,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        CALL(UseBlockSparseIndices, v, few, 2, index);
        CALL(UseBlockSparseIndices, v, index_dims, 2, index);
        if (CALL(GetSparseTensorFormat, v, &format))
            tell("format %d", (int)format);
        USE(ReleaseValue, v);
    }
}

void sparse(void)
{
    static const int64_t dims[] = { 3, 3 }, count[] = { 2 }, coo[] = { 1, 5 };
    static int64_t inner[] = { 1, 2 }, outer[] = { 0, 1, 2, 2 };
    static float numbers[] = { 1.5f, 2.5f };
    OrtTensorTypeAndShapeInfo *info = NULL;
    enum OrtSparseFormat format;
    const void *p = NULL;
    OrtValue *v = NULL;
    size_t n = 0;
    int yes = 0;

    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        if (CALL(IsSparseTensor, v, &yes))
            tell("%d", yes);
        CALL(FillSparseTensorCoo, v, cpu(), count, 1, numbers, coo, 2);
        if (CALL(GetSparseTensorFormat, v, &format))
            tell("format %d", (int)format);
        if (CALL(GetSparseTensorValues, v, &p))
            tell("%g %g", ((const float *)p)[0], ((const float *)p)[1]);
        if (CALL(GetSparseTensorIndices, v, ORT_SPARSE_COO_INDICES, &n, &p))
            tell("%zu: %lld %lld", n, (long long)((const int64_t *)p)[0], (long long)((const int64_t *)p)[1]);
        if (CALL(GetSparseTensorIndicesTypeShape, v, ORT_SPARSE_COO_INDICES, &info))
            tell_shape(info);
        USE(ReleaseTensorTypeAndShapeInfo, info);
        if (CALL(GetSparseTensorValuesTypeAndShape, v, &info))
            tell_shape(info);
        USE(ReleaseTensorTypeAndShapeInfo, info);
        USE(ReleaseValue, v);
    }
    if (CALL(CreateSparseTensorAsOrtValue, allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        CALL(FillSparseTensorCsr, v, cpu(), count, 1, numbers, inner, 2, outer, 4);
        if (CALL(GetSparseTensorFormat, v, &format))
            tell("format %d", (int)format);
        USE(ReleaseValue, v);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, count, 1,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        CALL(UseCsrIndices, v, inner, 2, outer, 4);
        if (CALL(GetSparseTensorIndices, v, ORT_SPARSE_CSR_OUTER_INDICES, &n, &p))
            tell("%zu, the same memory: %d", n, p == outer);
        USE(ReleaseValue, v);
    }
    if (CALL(CreateSparseTensorWithValuesAsOrtValue, cpu(), numbers, dims, 2, count, 1,
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &v)) {
        CALL(UseCooIndices, v, (int64_t *)(uintptr_t)coo, 2);
        if (CALL(GetSparseTensorFormat, v, &format))
            tell("format %d", (int)format);
        USE(ReleaseValue, v);
    }
    blocks();
}
