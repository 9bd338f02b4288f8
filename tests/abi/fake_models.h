/* fake_models.h - models for the fake device: nodes If and Loop, and sizes that depend on data. */
#ifndef FAKE_MODELS_H
#define FAKE_MODELS_H
#include "fake_rig.h"
#include <string.h>

static const int64_t scalar, none[] = { -1 };

/* Adds an If with -x in the then branch and other_op(other_from) in the else branch. */
static inline void add_if(onnx_bytes *bytes, const char *cond, const char *x, const char *other_op,
                          const char *other_from, const char *to)
{
    onnx_bytes yes = { .count = 0 }, no = { .count = 0 }, node = { .count = 0 };
    char p[32], q[32];

    (void)snprintf(p, sizeof p, "%s_p", to);
    (void)snprintf(q, sizeof q, "%s_q", to);
    onnx_node(&yes, "Neg", "", x, p);
    onnx_output(&yes, p, INLAY_FLOAT, 2, dims);
    onnx_text(&yes, 2, "yes");
    onnx_node(&no, other_op, "", other_from, q);
    onnx_output(&no, q, INLAY_FLOAT, 2, dims);
    onnx_text(&no, 2, "no");
    onnx_names(&node, 1, cond);
    onnx_names(&node, 2, to);
    onnx_text(&node, 4, "If");
    onnx_body(&node, "then_branch", &yes);
    onnx_body(&node, "else_branch", &no);
    onnx_message(bytes, 1, &node);
}

/* Binds input `index` to a scalar that the caller changes between runs. */
static inline void set_one(struct rig *rig, uint32_t index, inlay_dtype dtype, void *element, uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    assert_int_equal(inlay_value_borrow(dtype, 0, NULL, element, bytes, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig->context, index, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

/* Writes the body of a loop x = x + b, which also stacks -x. */
static inline void loop_body(onnx_bytes *body, const int64_t *shape)
{
    onnx_input(body, "i", INLAY_INT64, 0, &scalar);
    onnx_input(body, "go", INLAY_BOOL, 0, &scalar);
    onnx_input(body, "x", INLAY_FLOAT, 2, shape);
    onnx_node(body, "Add", "", "x,b", "more");
    onnx_node(body, "Neg", "", "more", "less");
    onnx_node(body, "Identity", "", "go", "on");
    onnx_output(body, "on", INLAY_BOOL, 0, &scalar);
    onnx_output(body, "more", INLAY_FLOAT, 2, shape);
    onnx_output(body, "less", INLAY_FLOAT, 2, shape);
    onnx_text(body, 2, "body");
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
