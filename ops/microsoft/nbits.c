/* microsoft/nbits.c - contributed operators of ONNX Runtime with packed weights of 2, 4 and 8 bits
 * ("ContribOperators.md" of that project): matrix multiplication, and gathering rows of a table. */
#include "schema.h"
#include "inlay/check.h"

/* Fails if dimension d of input i is known and differs from the size that the attributes require. */
static inlay_status check_dim(const op_infer *infer, uint32_t i, uint32_t d, int64_t wanted, const char *what)
{
    const inlay_dim dim = infer_dim(infer, i, d);

    if (dim.kind != INLAY_DIM_FIXED || dim.value == wanted)
        return INLAY_OK;
    return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has %lld elements along axis %u, but %s is %lld", i,
                      (long long)dim.value, d, what, (long long)wanted);
}

/* The number of elements of an input; -1 if it is not known. */
static int64_t count_of(const op_infer *infer, uint32_t i)
{
    const uint32_t rank = infer_rank(infer, i);
    int64_t count = 1;

    if (rank == INLAY_RANK_UNKNOWN)
        return -1;
    for (uint32_t d = 0; d < rank; d++) {
        const inlay_dim dim = infer_dim(infer, i, d);

        if (dim.kind != INLAY_DIM_FIXED || __builtin_mul_overflow(count, dim.value, &count))
            return -1;
    }
    return count;
}

static inlay_status check_count(const op_infer *infer, uint32_t i, int64_t wanted, const char *why)
{
    const int64_t count = infer_has_in(infer, i) ? count_of(infer, i) : -1;

    if (count < 0 || count == wanted)
        return INLAY_OK;
    return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has %lld elements; %s makes it %lld", i, (long long)count,
                      why, (long long)wanted);
}

/* Reads K, N and block_size. N times K in whole blocks must fit an index of weights. */
static inlay_status read_sizes(const op_infer *infer, int64_t *out_k, int64_t *out_n, int64_t *out_block)
{
    int64_t count;

    *out_k = infer_attr_int(infer, "K", 0);
    *out_n = infer_attr_int(infer, "N", 0);
    *out_block = infer_attr_int(infer, "block_size", 0);
    if (*out_k < 1 || *out_n < 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "K is %lld and N %lld; both must be positive", (long long)*out_k,
                          (long long)*out_n);
    if (*out_block < 1 || *out_block > INT32_MAX)
        return infer_fail(infer, INLAY_INVALID_MODEL, "block_size is %lld, outside [1, 2^31)", (long long)*out_block);
    if (__builtin_add_overflow(*out_k, *out_block - 1, &count) || __builtin_mul_overflow(count, *out_n, &count) ||
        count > INT64_MAX / 64)
        return infer_fail(infer, INLAY_INVALID_MODEL, "K is %lld and N %lld: too many weights in blocks of %lld",
                          (long long)*out_k, (long long)*out_n, (long long)*out_block);
    return INLAY_OK;
}

/* Sets output 0 to the shape of A with the last dimension, K, replaced by N. */
static inlay_status set_product(op_infer *infer, int64_t k, int64_t n)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        return INLAY_OK;
    INLAY_CHECK(k > 0 && n > 0);
    if (rank == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 0 is a scalar; it must have at least one axis");
    status = check_dim(infer, 0, rank - 1, k, "K");
    if (status != INLAY_OK)
        return status;
    for (uint32_t d = 0; d + 1 < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[rank - 1] = dim_fixed(n);
    return infer_set_shape(infer, 0, rank, dims);
}

/* B is [N, blocks, bytes of a block]; fewer axes, in the same order, are allowed. Each block has a scale and a zero
 * point; zero points are packed like B, in whole bytes for each column, or have one element each. */
static inlay_status infer_mat_mul_nbits(op_infer *infer)
{
    const int64_t bits = infer_attr_int(infer, "bits", 4);
    int64_t k, n, block, blocks, count;
    uint32_t rank;
    inlay_status status;

    INLAY_TRY(read_sizes(infer, &k, &n, &block));
    if (bits != 2 && bits != 4 && bits != 8)
        return infer_fail(infer, INLAY_INVALID_MODEL, "bits is %lld; it must be 2, 4 or 8", (long long)bits);
    if (block < 16 || (block & (block - 1)) != 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "block_size is %lld; it must be a power of two, at least 16",
                          (long long)block);
    blocks = (k + block - 1) / block;
    INLAY_TRY(check_count(infer, 1, n * blocks * (block * bits / 8), "N x blocks x bytes of a block"));
    rank = infer_rank(infer, 1);
    if (rank != INLAY_RANK_UNKNOWN && rank > 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 1 (B) is of rank %u; it must be [N, blocks, bytes]",
                          rank);
    if (rank != INLAY_RANK_UNKNOWN && rank > 1)
        INLAY_TRY(check_dim(infer, 1, 0, n, "N"));
    if (rank == 3)
        INLAY_TRY(check_dim(infer, 1, 1, blocks, "the number of blocks along K"));
    INLAY_TRY(check_count(infer, 2, n * blocks, "one for each block"));
    count = infer_has_in(infer, 3) ? count_of(infer, 3) : -1;
    if (infer_has_in(infer, 3) && infer->in[3]->dtype == INLAY_UINT8)
        INLAY_TRY(check_count(infer, 3, n * ((blocks * bits + 7) / 8), "packed zero points of whole bytes a column"));
    else if (count >= 0)
        INLAY_TRY(check_count(infer, 3, n * blocks, "one for each block"));
    count = infer_has_in(infer, 4) ? count_of(infer, 4) : -1;
    if (count >= 0 && count != k && count != blocks * block)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 4 (g_idx) has %lld elements; K is %lld", (long long)count,
                          (long long)k);
    INLAY_TRY(check_count(infer, 5, n, "one for each column"));
    status = set_product(infer, k, n);
done:
    return status;
}

/* B is a list of N x K indices into a table of 16 numbers; absmax has the factor of each block. */
static inlay_status infer_mat_mul_bnb4(op_infer *infer)
{
    const int64_t type = infer_attr_int(infer, "quant_type", 0);
    int64_t k, n, block;
    inlay_status status;

    INLAY_TRY(read_sizes(infer, &k, &n, &block));
    if (type != 0 && type != 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "quant_type is %lld; it must be 0 (FP4) or 1 (NF4)",
                          (long long)type);
    if (infer_attr_int(infer, "transB", 1) != 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "transB is %lld; only 1 is defined for B of N x K elements",
                          (long long)infer_attr_int(infer, "transB", 1));
    INLAY_TRY(check_count(infer, 1, (n * k + 1) / 2, "two elements a byte"));
    INLAY_TRY(check_count(infer, 2, (n * k + block - 1) / block, "one for each block"));
    status = set_product(infer, k, n);
done:
    return status;
}

/* B has the columns of a matrix of B_shape [K, N], each as blocks of a float scale, with blk_quant_type 1 a byte of
 * zero point, and 32 codes of 4 bits. ONNX Runtime reads every other blk_quant_type as 1; it is refused. */
static inlay_status infer_mat_mul_fp_q4(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const int64_t blob = infer_attr_int(infer, "blk_quant_type", 1) == 1 ? 21 : 20;
    inlay_dim dims[INLAY_MAX_RANK];
    int64_t size[2], count;
    uint32_t entries = 0;
    const bool known = infer_ints(infer, 2, size, 2, &entries);
    inlay_status status = INLAY_OK;

    if (known && (entries != 2 || size[0] < 0 || size[1] < 0))
        return infer_fail(infer, INLAY_INVALID_MODEL, "B_shape must have two sizes, of K and N, that are not negative");
    if (known) {
        if (__builtin_mul_overflow((size[0] / 32 + (size[0] % 32 != 0)) * blob, size[1], &count))
            return infer_fail(infer, INLAY_INVALID_MODEL, "B_shape is [%lld, %lld]: too many weights",
                              (long long)size[0], (long long)size[1]);
        INLAY_TRY(check_count(infer, 1, count, "B_shape"));
    }
    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        return INLAY_OK;
    if (rank == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 0 is a scalar; it must have at least one axis");
    if (known)
        INLAY_TRY(check_dim(infer, 0, rank - 1, size[0], "K"));
    for (uint32_t d = 0; d + 1 < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[rank - 1] = known ? dim_fixed(size[1]) : dim_unknown();
    status = infer_set_shape(infer, 0, rank, dims);
done:
    return status;
}

/* Reads and checks gather_axis and quantize_axis. per_byte: elements of the data in a byte. */
static inlay_status gathered_axes(const op_infer *infer, uint32_t rank, int64_t per_byte, uint32_t *out_gather,
                                  uint32_t *out_quantize)
{
    const int64_t bits = infer_attr_int(infer, "bits", 4), block = infer_attr_int(infer, "block_size", 128);
    inlay_status status;

    if (bits != 4 && infer->in[0]->dtype != INLAY_UINT8)
        return infer_fail(infer, INLAY_INVALID_MODEL, "bits is %lld; it must be 4 unless data is uint8",
                          (long long)bits);
    if (block < 16 || block > INT32_MAX || (block & (block - 1)) != 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "block_size is %lld; it must be a power of two, at least 16",
                          (long long)block);
    status = infer_axis(infer, infer_attr_int(infer, "gather_axis", 0), rank, "gather_axis", out_gather);
    if (status == INLAY_OK)
        status = infer_axis(infer, infer_attr_int(infer, "quantize_axis", 1), rank, "quantize_axis", out_quantize);
    if (status != INLAY_OK)
        return status;
    if (per_byte > 1 && *out_gather == rank - 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "gather_axis %u is the axis that is packed", *out_gather);
    return INLAY_OK;
}

/* Gathers from dequantized data: if its type is uint8, elements of `bits` are packed along the last axis. */
static inlay_status infer_gather_block_quantized(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0), indices = infer_rank(infer, 1);
    const int64_t block = infer_attr_int(infer, "block_size", 128);
    const int64_t per_byte = infer->in[0]->dtype == INLAY_UINT8 ? 8 / infer_attr_int(infer, "bits", 4) : 1;
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t gather, quantize, at = 0;
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN || indices == INLAY_RANK_UNKNOWN || rank + indices > INLAY_MAX_RANK)
        return INLAY_OK;
    INLAY_TRY(gathered_axes(infer, rank, per_byte, &gather, &quantize));
    for (uint32_t d = 0; d < rank; d++) {
        inlay_dim dim = infer_dim(infer, 0, d);
        int64_t scales;

        if (d == rank - 1 && dim.kind == INLAY_DIM_FIXED && __builtin_mul_overflow(dim.value, per_byte, &dim.value))
            return infer_fail(infer, INLAY_INVALID_MODEL, "input 0 has too many elements");
        if (d == rank - 1 && dim.kind != INLAY_DIM_FIXED && per_byte != 1)
            dim = (inlay_dim){ .kind = INLAY_DIM_UNKNOWN };
        scales = d == quantize ? dim.value / block + (dim.value % block != 0) : dim.value;
        if (dim.kind == INLAY_DIM_FIXED)
            INLAY_TRY(check_dim(infer, 2, d, scales, "what the data and block_size make it"));
        if (d == gather)
            for (uint32_t i = 0; i < indices; i++)
                dims[at++] = infer_dim(infer, 1, i);
        else
            dims[at++] = dim;
    }
    INLAY_CHECK(at == rank - 1 + indices);
    status = infer_set_shape(infer, 0, at, dims);
done:
    return status;
}

static const op_row microsoft_nbits_rows[] = {
    { "GatherBlockQuantized", 1, 0,
      "data:T1, indices:Tind, scales:T2, zero_points?:T1 -> output:T2; T1=int4|uint4|uint8, "
      "T2=float|float16|bfloat16, Tind=int32|int64; bits:i=4{2|4|8}, block_size:i=128, gather_axis:i=0, "
      "quantize_axis:i=1",
      infer_gather_block_quantized },
    { "MatMulBnb4", 1, 0,
      "A:T1, B:T2, absmax:T1 -> Y:T1; T1=float|float16|bfloat16, T2=uint8; K:i!, N:i!, block_size:i!, "
      "quant_type:i!, training_mode:i=0, transB:i=1",
      infer_mat_mul_bnb4 },
    { "MatMulFpQ4", 1, 0, "A:T1, B:T2, B_shape:T3 -> Y:T1; T1=float, T2=uint8, T3=int64; blk_quant_type:i=1{0|1}",
      infer_mat_mul_fp_q4 },
    { "MatMulNBits", 1, 0,
      "A:T1, B:T2, scales:T1, zero_points?:T3, g_idx?:T4, bias?:T1 -> Y:T1; T1=float|float16|bfloat16, T2=uint8, "
      "T3=uint8|float|float16|bfloat16, T4=int32; K:i!, N:i!, accuracy_level:i=0{0|1|2|3|4}, bits:i=4, block_size:i!, "
      "weight_prepacked:i=0{0}",
      infer_mat_mul_nbits },
};

const op_table op_microsoft_nbits = { "com.microsoft", microsoft_nbits_rows, OP_COUNT(microsoft_nbits_rows) };
