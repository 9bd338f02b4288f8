/* fake_models.h - models for the fake device whose sizes depend on data, and inputs that are scalars. */
#ifndef FAKE_MODELS_H
#define FAKE_MODELS_H
#include "fake_rig.h"
#include <string.h>

static const int64_t scalar, none[] = { -1 };

/* Binds input `index` to a scalar that the caller changes between runs. */
static inline void set_one(struct rig *rig, uint32_t index, inlay_dtype dtype, void *element, uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    assert_int_equal(inlay_value_borrow(dtype, 0, NULL, element, bytes, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig->context, index, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

/* Opens a session whose region has a size that only a run knows, -a[take] and then the operator `last` or none (NULL),
 * and runs it. Every result is positive. */
static inline struct rig run_compressed(const char *last, const char *const *settings)
{
    static const int64_t shape[] = { 6 };
    static const float want[] = { 1, 3, 5 };
    static float x[] = { -1, 2, -3, 4, -5, 6 };
    static uint8_t take[] = { 1, 0, 1, 0, 1, 0 };
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    struct rig rig;

    onnx_input(&bytes, "a", INLAY_FLOAT, 1, shape);
    onnx_input(&bytes, "take", INLAY_BOOL, 1, shape);
    onnx_node(&bytes, "Compress", "", "a,take", "c");
    onnx_node(&bytes, "Neg", "", "c", last != NULL ? "n" : "y");
    if (last != NULL)
        onnx_node(&bytes, last, "", "n", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 1, none);
    rig = open_rig(&bytes, settings);
    set_floats(rig.context, 0, 1, shape, x);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, shape, take, sizeof take, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 1, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    run(&rig);
    expect_floats(rig.context, 0, want, 3);
    return rig;
}
#endif
