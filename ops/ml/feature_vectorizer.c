/* ml/feature_vectorizer.c - concatenation of features. */
#include "ml.h"

static inlay_status infer_feature_vectorizer(op_infer *infer)
{
    inlay_dim columns = dim_fixed(0);
    const int64_t *widths;
    uint32_t count;

    widths = infer_attr_ints(infer, "inputdimensions", &count);
    for (uint32_t i = 0; i < count; i++)
        columns = dim_add(infer, columns, dim_fixed(widths[i]));
    return ml_infer_columns(infer, 0, count > 0 ? columns : dim_unknown());
}

static const op_row ml_feature_vectorizer_rows[] = {
    { "FeatureVectorizer", 1, 0, "X*:T1 -> Y:float; T1=int32|int64|float|double; inputdimensions:is",
      infer_feature_vectorizer },
};

const op_table op_ml_feature_vectorizer = { "ai.onnx.ml", ml_feature_vectorizer_rows,
                                            OP_COUNT(ml_feature_vectorizer_rows) };
