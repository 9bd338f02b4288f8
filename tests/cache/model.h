/* model.h - a model whose weights are stored in the model file without changes. */
#ifndef CACHE_MODEL_H
#define CACHE_MODEL_H
#include "inlay/types.h"
#include "model_writer.h"

enum { MODEL_CHANNELS = 64, MODEL_SIDE = 12 };

static inline void model_weights(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims, float from)
{
    int64_t count = 1;
    float *data;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = from + (float)(i * 7919 % 1009) / 1009;
    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    wire_bytes(wire, 9, data, (size_t)count * sizeof *data);
    wire_end(wire, mark);
    free(data);
}

/* Writes a model of two convolutions and a matrix multiplication: [1, 64, 12, 12] -> [1, 50]. */
static inline struct wire model_make(float from)
{
    static const int64_t w_dims[] = { MODEL_CHANNELS, MODEL_CHANNELS, 3, 3 };
    static const int64_t m_dims[] = { MODEL_CHANNELS * MODEL_SIDE * MODEL_SIDE, 50 }, b_dims[] = { MODEL_CHANNELS };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n, a;

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1,64,12,12");
    model_weights(&wire, "w1", 4, w_dims, from);
    model_weights(&wire, "w2", 4, w_dims, from + 0.5f);
    model_weights(&wire, "b", 1, b_dims, from);
    model_weights(&wire, "m", 2, m_dims, -0.5f);
    for (int i = 0; i < 2; i++) {
        n = mw_node_begin(&wire, "Conv", i == 0 ? "x,w1,b" : "c1,w2,b", i == 0 ? "c1" : "c2");
        a = wire_begin(&wire, 5);
        wire_text(&wire, 1, "pads");
        wire_int(&wire, 20, 7);
        for (int k = 0; k < 4; k++)
            wire_int(&wire, 8, 1);
        wire_end(&wire, a);
        wire_end(&wire, n);
    }
    mw_node(&wire, "Flatten", "c2", "f");
    mw_node(&wire, "MatMul", "f,m", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1,50");
    wire_end(&wire, mark);
    return wire;
}

/* Returns the offset of the weights of w1 in the file. */
static inline long model_first_weight(const struct wire *wire, float from)
{
    const float weights[] = { from, from + (float)(7919 % 1009) / 1009 };
    uint8_t first[sizeof weights];

    memcpy(first, weights, sizeof first);
    for (size_t i = 0; i + sizeof first <= wire->count; i++)
        if (memcmp(wire->bytes + i, first, sizeof first) == 0)
            return (long)i;
    fail_msg("no weights");
    return -1;
}
#endif
