/* onnx/tf_idf_vectorizer.c - counting of n-grams. */
#include "schema.h"

static const op_row rows[] = {
    { "TfIdfVectorizer", 9, 0,
      "X:T -> Y:T1; T=int32|int64|string, T1=float; max_gram_length:i!, max_skip_count:i!, min_gram_length:i!, "
      "mode:s!, ngram_counts:is!, ngram_indexes:is!, pool_int64s:is, pool_strings:ss, weights:fs",
      NULL },
};

const op_table op_onnx_tf_idf_vectorizer = { "ai.onnx", rows, OP_COUNT(rows) };
