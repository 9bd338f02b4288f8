/* onnx/string.c - operators on strings. */
#include "schema.h"

/* StringNormalizer-10: [C] -> [?], [1, C] -> [1, ?]. */
static inlay_status infer_string_normalizer(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    uint32_t stopword_count = 0;
    const inlay_attr_info *stopwords = infer_attr(infer, "stopwords");
    inlay_dim dims[2];

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != 1 && rank != 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [C] or [1, C]", rank);
    stopword_count = stopwords != NULL ? stopwords->count : 0;
    dims[0] = dim_fixed(1);
    /* Without stop words no string is removed; an empty input becomes one empty string. */
    dims[rank - 1] = infer_dim(infer, 0, rank - 1);
    if (stopword_count > 0 || dims[rank - 1].kind != INLAY_DIM_FIXED)
        dims[rank - 1] = dim_unknown();
    else if (dims[rank - 1].value == 0)
        dims[rank - 1] = dim_fixed(1);
    return infer_set_shape(infer, 0, rank, dims);
}

/* StringSplit-20: the parts have an additional axis; the counts of parts have the shape of X. */
static inlay_status infer_string_split(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK + 1];
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = infer_dim(infer, 0, i);
    dims[rank] = dim_unknown();
    status = infer_set_shape(infer, 0, rank + 1, dims);
    return status == INLAY_OK ? infer_set_shape(infer, 1, rank, dims) : status;
}

static const op_row onnx_string_rows[] = {
    { "RegexFullMatch", 20, 0, "X:T1 -> Y:T2; T1=string, T2=bool; pattern:s", infer_same_as_first },
    { "StringConcat", 20, 0, "X:T, Y:T -> Z:T; T=string", infer_broadcast_all },
    { "StringNormalizer", 10, 0,
      "X:string -> Y:string; ; case_change_action:s='NONE', is_case_sensitive:i=0, locale:s, stopwords:ss",
      infer_string_normalizer },
    { "StringSplit", 20, 0, "X:T1 -> Y:T2, Z:T3; T1=string, T2=string, T3=int64; delimiter:s, maxsplit:i",
      infer_string_split },
};

const op_table op_onnx_string = { "ai.onnx", onnx_string_rows, OP_COUNT(onnx_string_rows) };
