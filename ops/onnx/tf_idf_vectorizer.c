/* onnx/tf_idf_vectorizer.c - counting of n-grams. */
#include "schema.h"

/* TfIdfVectorizer-9: [C] -> [n], [N, C] -> [N, n], where n is the largest element of ngram_indexes plus 1. */
static inlay_status infer_tf_idf(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[2];
    int64_t most = -1;
    uint32_t count;
    const int64_t *indexes = infer_attr_ints(infer, "ngram_indexes", &count);

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != 1 && rank != 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [C] or [N, C]", rank);
    for (uint32_t i = 0; i < count; i++)
        most = indexes[i] > most ? indexes[i] : most;
    dims[0] = infer_dim(infer, 0, 0);
    dims[rank - 1] = dim_fixed(most < INT64_MAX ? most + 1 : -1);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_tf_idf_vectorizer_rows[] = {
    { "TfIdfVectorizer", 9, 0,
      "X:T -> Y:T1; T=int32|int64|string, T1=float; max_gram_length:i!, max_skip_count:i!, min_gram_length:i!, "
      "mode:s!, ngram_counts:is!, ngram_indexes:is!, pool_int64s:is, pool_strings:ss, weights:fs",
      infer_tf_idf },
};

const op_table op_onnx_tf_idf_vectorizer = { "ai.onnx", onnx_tf_idf_vectorizer_rows,
                                             OP_COUNT(onnx_tf_idf_vectorizer_rows) };
