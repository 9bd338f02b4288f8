/* Sparse tensors: values and indices as given by programs. Runs use their dense form; sparse weights of models are
 * expanded on loading. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

struct indices {
    void *data;
    size_t rank, count;
    int64_t dims[2];
    bool owned;
};

struct ort_sparse {
    inlay_dtype dtype;
    OrtSparseFormat format;
    size_t rank, values_rank, values_count;
    int64_t dims[INLAY_MAX_RANK], values_dims[INLAY_MAX_RANK];
    void *values;                 /* inlay_str for strings */
    bool owned;                   /* values are owned */
    struct indices first, second; /* second: the outer indices of CSR */
};

void ort_sparse_free(ort_sparse *sparse)
{
    if (sparse == NULL)
        return;
    if (sparse->owned && sparse->values != NULL && sparse->dtype == INLAY_STRING)
        for (size_t i = 0; i < sparse->values_count; i++)
            free((char *)(uintptr_t)((inlay_str *)sparse->values)[i].data);
    if (sparse->owned)
        free(sparse->values);
    if (sparse->first.owned)
        free(sparse->first.data);
    if (sparse->second.owned)
        free(sparse->second.data);
    free(sparse);
}

static OrtStatus *sparse_of(const OrtValue *value, ort_sparse **out)
{
    ORT_NEED(value);
    if (value->sparse == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the value is not a sparse tensor");
    *out = value->sparse;
    return NULL;
}

OrtTensorTypeAndShapeInfo *ort_sparse_shape(const OrtValue *value)
{
    const ort_sparse *sparse = value->sparse;

    INLAY_CHECK(sparse != NULL);
    return ort_shape_new(ort_type_of(sparse->dtype), true, sparse->rank, sparse->dims, NULL);
}

OrtStatus *ort_CreateSparseTensorAsOrtValue(OrtAllocator *allocator, const int64_t *dense_shape, size_t dense_shape_len,
                                            ONNXTensorElementDataType type, OrtValue **out)
{
    size_t count;

    ORT_NEED(allocator);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(ort_check_shape(dense_shape, dense_shape_len, &count));
    if (inlay_dtype_bits(ort_dtype(type)) < 8)
        return ort_fail(ORT_INVALID_ARGUMENT, "sparse tensors cannot have the element type %d", type);
    ORT_TRY(ort_value_bare(ONNX_TYPE_SPARSETENSOR, out));
    (*out)->sparse = calloc(1, sizeof *(*out)->sparse);
    if ((*out)->sparse == NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
        return ort_no_memory();
    }
    (*out)->sparse->dtype = (*out)->element = ort_dtype(type);
    (*out)->sparse->rank = dense_shape_len;
    if (dense_shape_len > 0)
        memcpy((*out)->sparse->dims, dense_shape, dense_shape_len * sizeof *dense_shape);
    return NULL;
}

static OrtStatus *set_values_shape(ort_sparse *sparse, const int64_t *shape, size_t rank)
{
    ORT_TRY(ort_check_shape(shape, rank, &sparse->values_count));
    sparse->values_rank = rank;
    if (rank > 0)
        memcpy(sparse->values_dims, shape, rank * sizeof *shape);
    return NULL;
}

OrtStatus *ort_CreateSparseTensorWithValuesAsOrtValue(const OrtMemoryInfo *info, void *p_data,
                                                      const int64_t *dense_shape, size_t dense_shape_len,
                                                      const int64_t *values_shape, size_t values_shape_len,
                                                      ONNXTensorElementDataType type, OrtValue **out)
{
    OrtStatus *failed;

    ORT_NEED(info);
    ORT_NEED(out);
    if (ort_dtype(type) == INLAY_STRING) {
        *out = NULL;
        return ort_fail(ORT_INVALID_ARGUMENT, "strings cannot use the program's memory; use "
                                              "CreateSparseTensorAsOrtValue");
    }
    ORT_TRY(ort_CreateSparseTensorAsOrtValue(ort_allocator(), dense_shape, dense_shape_len, type, out));
    failed = set_values_shape((*out)->sparse, values_shape, values_shape_len);
    (*out)->sparse->values = p_data;
    (*out)->info = *info;
    (*out)->memory = &(*out)->info;
    if (failed != NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
    }
    return failed;
}

static OrtStatus *check_empty(const ort_sparse *sparse)
{
    if (sparse->format != ORT_SPARSE_UNDEFINED)
        return ort_fail(ORT_INVALID_ARGUMENT, "the sparse tensor already has indices");
    return NULL;
}

static OrtStatus *copy_values(ort_sparse *sparse, const int64_t *shape, size_t rank, const void *values)
{
    size_t bytes = inlay_dtype_bits(sparse->dtype) / 8;

    ORT_TRY(check_empty(sparse));
    if (sparse->values != NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the sparse tensor already has values");
    ORT_TRY(set_values_shape(sparse, shape, rank));
    if (sparse->values_count > 0)
        ORT_NEED(values);
    sparse->values = calloc(sparse->values_count + 1, bytes);
    sparse->owned = true;
    if (sparse->values == NULL)
        return ort_no_memory();
    if (sparse->dtype != INLAY_STRING) {
        if (sparse->values_count > 0)
            memcpy(sparse->values, values, sparse->values_count * bytes);
        return NULL;
    }
    for (size_t i = 0; i < sparse->values_count; i++) { /* strings are given as an array of char * */
        const char *text = ((const char *const *)values)[i];
        char *copy = strdup(text != NULL ? text : "");

        if (copy == NULL)
            return ort_no_memory();
        ((inlay_str *)sparse->values)[i] = (inlay_str){ copy, strlen(copy) };
    }
    return NULL;
}

/* Sets count indices of element_bytes (4 or 8) with the given rank and dimensions. */
static OrtStatus *set_indices(struct indices *indices, const void *data, size_t element_bytes, size_t rank,
                              int64_t first, int64_t second, size_t count, bool copy)
{
    INLAY_CHECK(rank <= 2);
    if (indices->owned) /* of an attempt that failed */
        free(indices->data);
    *indices = (struct indices){ .rank = rank, .count = count, .dims = { first, second }, .owned = copy };
    if (count > 0)
        ORT_NEED(data);
    if (!copy) {
        indices->data = (void *)(uintptr_t)data;
        return NULL;
    }
    indices->data = calloc(count + 1, element_bytes);
    if (indices->data == NULL)
        return ort_no_memory();
    if (count > 0)
        memcpy(indices->data, data, count * element_bytes);
    return NULL;
}

static OrtStatus *set_coo(ort_sparse *sparse, const int64_t *data, size_t count, bool copy)
{
    bool pairs = count == 2 * sparse->values_count && sparse->values_count > 0;

    ORT_TRY(check_empty(sparse));
    if (count != sparse->values_count && !(pairs && sparse->rank == 2))
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "%zu COO indices for %zu values: one per value is required, or two if the tensor has "
                        "two dimensions",
                        count, sparse->values_count);
    ORT_TRY(
        set_indices(&sparse->first, data, sizeof *data, pairs ? 2 : 1, (int64_t)sparse->values_count, 2, count, copy));
    sparse->format = ORT_SPARSE_COO;
    return NULL;
}

static OrtStatus *set_csr(ort_sparse *sparse, const int64_t *inner, size_t inner_count, const int64_t *outer,
                          size_t outer_count, bool copy)
{
    ORT_TRY(check_empty(sparse));
    if (sparse->rank != 2 || inner_count != sparse->values_count ||
        (outer_count != 0 && outer_count != (size_t)sparse->dims[0] + 1))
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "CSR requires two dimensions, an inner index per value, and rows + 1 outer indices, but "
                        "there are %zu values, %zu inner and %zu outer indices",
                        sparse->values_count, inner_count, outer_count);
    ORT_TRY(set_indices(&sparse->first, inner, sizeof *inner, 1, (int64_t)inner_count, 0, inner_count, copy));
    ORT_TRY(set_indices(&sparse->second, outer, sizeof *outer, 1, (int64_t)outer_count, 0, outer_count, copy));
    sparse->format = ORT_SPARSE_CSRC;
    return NULL;
}

/* Sets the indices of blocks: two for each block. The first two dimensions of the values are the size of a block, the
 * product of the others is the number of blocks. */
static OrtStatus *set_blocks(ort_sparse *sparse, const int64_t *shape, size_t rank, const int32_t *data, bool copy)
{
    size_t count, blocks = 1;

    ORT_TRY(check_empty(sparse));
    ORT_TRY(ort_check_shape(shape, rank, &count));
    if (rank == 0 || rank > 2)
        return ort_fail(ORT_INVALID_ARGUMENT, "indices of blocks must have two dimensions, not %zu", rank);
    for (size_t i = 2; i < sparse->values_rank; i++)
        blocks *= (size_t)sparse->values_dims[i];
    if (sparse->values_rank > 2 && count != 2 * blocks)
        return ort_fail(ORT_FAIL, "%zu blocks of values require two indices each, not %zu indices", blocks, count);
    ORT_TRY(set_indices(&sparse->first, data, sizeof *data, rank, shape[0], rank > 1 ? shape[1] : 0, count, copy));
    sparse->format = ORT_SPARSE_BLOCK_SPARSE;
    return NULL;
}

OrtStatus *ort_FillSparseTensorCoo(OrtValue *ort_value, const OrtMemoryInfo *data_mem_info, const int64_t *values_shape,
                                   size_t values_shape_len, const void *values, const int64_t *indices_data,
                                   size_t indices_num)
{
    ort_sparse *sparse;

    ORT_NEED(data_mem_info);
    ORT_TRY(sparse_of(ort_value, &sparse));
    ORT_TRY(copy_values(sparse, values_shape, values_shape_len, values));
    return set_coo(sparse, indices_data, indices_num, true);
}

OrtStatus *ort_FillSparseTensorCsr(OrtValue *ort_value, const OrtMemoryInfo *data_mem_info, const int64_t *values_shape,
                                   size_t values_shape_len, const void *values, const int64_t *inner_indices_data,
                                   size_t inner_indices_num, const int64_t *outer_indices_data,
                                   size_t outer_indices_num)
{
    ort_sparse *sparse;

    ORT_NEED(data_mem_info);
    ORT_TRY(sparse_of(ort_value, &sparse));
    ORT_TRY(copy_values(sparse, values_shape, values_shape_len, values));
    return set_csr(sparse, inner_indices_data, inner_indices_num, outer_indices_data, outer_indices_num, true);
}

OrtStatus *ort_FillSparseTensorBlockSparse(OrtValue *ort_value, const OrtMemoryInfo *data_mem_info,
                                           const int64_t *values_shape, size_t values_shape_len, const void *values,
                                           const int64_t *indices_shape_data, size_t indices_shape_len,
                                           const int32_t *indices_data)
{
    ort_sparse *sparse;

    ORT_NEED(data_mem_info);
    ORT_TRY(sparse_of(ort_value, &sparse));
    ORT_TRY(copy_values(sparse, values_shape, values_shape_len, values));
    return set_blocks(sparse, indices_shape_data, indices_shape_len, indices_data, true);
}

OrtStatus *ort_UseCooIndices(OrtValue *ort_value, int64_t *indices_data, size_t indices_num)
{
    ort_sparse *sparse;

    ORT_TRY(sparse_of(ort_value, &sparse));
    return set_coo(sparse, indices_data, indices_num, false);
}

OrtStatus *ort_UseCsrIndices(OrtValue *ort_value, int64_t *inner_data, size_t inner_num, int64_t *outer_data,
                             size_t outer_num)
{
    ort_sparse *sparse;

    ORT_TRY(sparse_of(ort_value, &sparse));
    return set_csr(sparse, inner_data, inner_num, outer_data, outer_num, false);
}

OrtStatus *ort_UseBlockSparseIndices(OrtValue *ort_value, const int64_t *indices_shape, size_t indices_shape_len,
                                     int32_t *indices_data)
{
    ort_sparse *sparse;

    ORT_TRY(sparse_of(ort_value, &sparse));
    return set_blocks(sparse, indices_shape, indices_shape_len, indices_data, false);
}

OrtStatus *ort_GetSparseTensorFormat(const OrtValue *ort_value, OrtSparseFormat *out)
{
    ort_sparse *sparse;

    ORT_NEED(out);
    ORT_TRY(sparse_of(ort_value, &sparse));
    *out = sparse->format;
    return NULL;
}

OrtStatus *ort_GetSparseTensorValuesTypeAndShape(const OrtValue *ort_value, OrtTensorTypeAndShapeInfo **out)
{
    ort_sparse *sparse;

    ORT_NEED(out);
    ORT_TRY(sparse_of(ort_value, &sparse));
    *out = ort_shape_new(ort_type_of(sparse->dtype), true, sparse->values_rank, sparse->values_dims, NULL);
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_GetSparseTensorValues(const OrtValue *ort_value, const void **out)
{
    ort_sparse *sparse;

    ORT_NEED(out);
    ORT_TRY(sparse_of(ort_value, &sparse));
    if (sparse->dtype == INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "Use GetStringTensor*() API to retrieve strings");
    *out = sparse->values;
    return NULL;
}

static OrtStatus *find_indices(const OrtValue *value, OrtSparseIndicesFormat format, const struct indices **out,
                               ONNXTensorElementDataType *out_type)
{
    static const OrtSparseFormat formats[] = { ORT_SPARSE_COO, ORT_SPARSE_CSRC, ORT_SPARSE_CSRC,
                                               ORT_SPARSE_BLOCK_SPARSE };
    ort_sparse *sparse;

    ORT_TRY(sparse_of(value, &sparse));
    if (format < 0 || format > ORT_SPARSE_BLOCK_SPARSE_INDICES || sparse->format != formats[format])
        return ort_fail(ORT_FAIL, "the sparse tensor has no indices of format %d", format);
    *out = format == ORT_SPARSE_CSR_OUTER_INDICES ? &sparse->second : &sparse->first;
    *out_type = format == ORT_SPARSE_BLOCK_SPARSE_INDICES ? INLAY_INT32 : INLAY_INT64;
    return NULL;
}

OrtStatus *ort_GetSparseTensorIndicesTypeShape(const OrtValue *ort_value, OrtSparseIndicesFormat indices_format,
                                               OrtTensorTypeAndShapeInfo **out)
{
    ONNXTensorElementDataType type;
    const struct indices *indices;

    ORT_NEED(out);
    ORT_TRY(find_indices(ort_value, indices_format, &indices, &type));
    *out = ort_shape_new(type, true, indices->rank, indices->dims, NULL);
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_GetSparseTensorIndices(const OrtValue *ort_value, OrtSparseIndicesFormat indices_format,
                                      size_t *num_indices, const void **indices_)
{
    ONNXTensorElementDataType type;
    const struct indices *indices;

    ORT_NEED(num_indices);
    ORT_NEED(indices_);
    ORT_TRY(find_indices(ort_value, indices_format, &indices, &type));
    *num_indices = indices->count;
    *indices_ = indices->data;
    return NULL;
}

/* Sets linear[values_count] to the linear indices of a tensor in CSR form. */
static OrtStatus *expand_rows(const ort_sparse *sparse, int64_t *linear)
{
    const int64_t *inner = sparse->first.data, *outer = sparse->second.data;
    const int64_t count = (int64_t)sparse->values_count, rows = sparse->dims[0], columns = sparse->dims[1];
    int64_t at = 0;

    if (count == 0)
        return NULL;
    if (sparse->second.count != (size_t)rows + 1 || outer[0] != 0 || outer[rows] != count)
        return ort_fail(ORT_INVALID_ARGUMENT, "outer indices of CSR must go from 0 to the number of values");
    for (int64_t row = 0; row < rows; row++) {
        if (outer[row + 1] < at || outer[row + 1] > count)
            return ort_fail(ORT_INVALID_ARGUMENT, "outer indices of CSR must not decrease");
        for (; at < outer[row + 1]; at++) {
            if (inner[at] < 0 || inner[at] >= columns)
                return ort_fail(ORT_INVALID_ARGUMENT, "inner index %lld of CSR is out of range", (long long)at);
            linear[at] = row * columns + inner[at];
        }
    }
    INLAY_CHECK(at == count);
    return NULL;
}

/* indices has one linear index, or one index per dimension, for each value. */
static OrtStatus *make_dense(const ort_sparse *sparse, uint32_t indices_rank, const int64_t *indices, inlay_value **out)
{
    const int64_t count = (int64_t)sparse->values_count, shape[] = { count, (int64_t)sparse->rank };
    const uint64_t index_bytes = (uint64_t)count * (indices_rank == 2 ? sparse->rank : 1) * sizeof *indices;
    inlay_value *values = NULL, *at = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    status = inlay_value_borrow(sparse->dtype, 1, &count, sparse->values,
                                (uint64_t)count * (inlay_dtype_bits(sparse->dtype) / 8), &values, &diag);
    if (status == INLAY_OK)
        status =
            inlay_value_borrow(INLAY_INT64, indices_rank, shape, (void *)(uintptr_t)indices, index_bytes, &at, &diag);
    if (status == INLAY_OK)
        status = inlay_value_from_sparse(values, at, (uint32_t)sparse->rank, sparse->dims, out, &diag);
    inlay_value_unref(values);
    inlay_value_unref(at);
    return ort_from(status, &diag);
}

OrtStatus *ort_sparse_to_dense(const ort_sparse *sparse, inlay_value **out)
{
    OrtStatus *failed;
    int64_t *linear;

    *out = NULL;
    if (sparse->format == ORT_SPARSE_COO)
        return make_dense(sparse, (uint32_t)sparse->first.rank, sparse->first.data, out);
    if (sparse->format != ORT_SPARSE_CSRC)
        return ort_fail(ORT_NOT_IMPLEMENTED, "sparse inputs must have indices in the form COO or CSR");
    linear = calloc(sparse->values_count + 1, sizeof *linear);
    if (linear == NULL)
        return ort_no_memory();
    failed = expand_rows(sparse, linear);
    if (failed == NULL)
        failed = make_dense(sparse, 1, linear, out);
    free(linear);
    return failed;
}

/* Fills an empty sparse tensor from values [n] and their indices [n, rank], which it makes linear. */
static OrtStatus *fill_linear(ort_sparse *sparse, const inlay_value *values, const inlay_value *indices)
{
    const int64_t count = inlay_value_count(values), *index = inlay_value_data(indices);
    int64_t *linear = calloc((size_t)count + 1, sizeof *linear);
    OrtStatus *failed;

    if (linear == NULL)
        return ort_no_memory();
    for (int64_t i = 0; i < count; i++)
        for (size_t d = 0; d < sparse->rank; d++)
            linear[i] = linear[i] * sparse->dims[d] + *index++;
    failed = copy_values(sparse, &count, 1, inlay_value_data(values));
    if (failed == NULL)
        failed = set_coo(sparse, linear, (size_t)count, true);
    free(linear);
    return failed;
}

OrtStatus *ort_sparse_of_dense(const inlay_value *dense, OrtValue **out)
{
    inlay_value *values = NULL, *indices = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    OrtStatus *failed;

    ORT_TRY(ort_CreateSparseTensorAsOrtValue(ort_allocator(), inlay_value_dims(dense), inlay_value_rank(dense),
                                             ort_type_of(inlay_value_dtype(dense)), out));
    failed = ort_from(inlay_value_to_sparse(dense, &values, &indices, &diag), &diag);
    if (failed == NULL)
        failed = fill_linear((*out)->sparse, values, indices);
    inlay_value_unref(values);
    inlay_value_unref(indices);
    if (failed != NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
    }
    return failed;
}
