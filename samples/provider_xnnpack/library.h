/* library.h - the API of XNNPACK in the versions of Debian 12 (2022-02) and 13 (2024-11), under one set of names.
 * CMakeLists.txt finds out which functions there are. */
#ifndef XNNPACK_LIBRARY_H
#define XNNPACK_LIBRARY_H
#include <math.h>
#include <xnnpack.h>

enum library_binary { LIBRARY_ADD, LIBRARY_SUBTRACT, LIBRARY_MULTIPLY };
enum library_unary { LIBRARY_CLAMP, LIBRARY_HARDSWISH, LIBRARY_SIGMOID };

/* Adds out = a op b, with broadcasting. */
static inline enum xnn_status library_binary(xnn_subgraph_t graph, enum library_binary op, uint32_t a, uint32_t b,
                                             uint32_t out)
{
#ifdef HAVE_XNN_DEFINE_BINARY
    static const enum xnn_binary_operator ops[] = { xnn_binary_add, xnn_binary_subtract, xnn_binary_multiply };

    return xnn_define_binary(graph, ops[op], NULL, a, b, out, 0);
#else
    static enum xnn_status (*const ops[])(xnn_subgraph_t, float, float, uint32_t, uint32_t, uint32_t,
                                          uint32_t) = { xnn_define_add2, xnn_define_subtract, xnn_define_multiply2 };

    return ops[op](graph, -INFINITY, INFINITY, a, b, out, 0);
#endif
}

/* Adds out = op(in); low and high are the bounds of LIBRARY_CLAMP. */
static inline enum xnn_status library_unary(xnn_subgraph_t graph, enum library_unary op, float low, float high,
                                            uint32_t in, uint32_t out)
{
#ifdef HAVE_XNN_DEFINE_UNARY
    static const enum xnn_unary_operator ops[] = { xnn_unary_clamp, xnn_unary_hardswish, xnn_unary_sigmoid };
    const union xnn_unary_params params = { .clamp = { .min = low, .max = high } };

    return xnn_define_unary(graph, ops[op], &params, in, out, 0);
#else
    static enum xnn_status (*const ops[])(xnn_subgraph_t, uint32_t, uint32_t, uint32_t) = { NULL, xnn_define_hardswish,
                                                                                            xnn_define_sigmoid };

    return op == LIBRARY_CLAMP ? xnn_define_clamp(graph, low, high, in, out, 0) : ops[op](graph, in, out, 0);
#endif
}

/* Adds out [N, 1, 1, C], the mean of each channel of in [N, H, W, C]. */
static inline enum xnn_status library_global_average(xnn_subgraph_t graph, uint32_t in, uint32_t out)
{
#ifdef HAVE_XNN_DEFINE_STATIC_REDUCE
    static const size_t axes[] = { 1, 2 };

    return xnn_define_static_reduce(graph, xnn_reduce_mean, 2, axes, in, out, XNN_FLAG_KEEP_DIMS);
#else
    return xnn_define_global_average_pooling_2d(graph, -INFINITY, INFINITY, in, out, 0);
#endif
}

/* The 2022 version has no concatenation. */
#ifdef HAVE_XNN_DEFINE_CONCATENATE2
enum { LIBRARY_CONCATENATES = 1 };
static inline enum xnn_status library_concatenate(xnn_subgraph_t graph, size_t axis, uint32_t a, uint32_t b,
                                                  uint32_t out)
{
    return xnn_define_concatenate2(graph, (int32_t)axis, a, b, out, 0);
}
#else
enum { LIBRARY_CONCATENATES = 0 };
static inline enum xnn_status library_concatenate(xnn_subgraph_t graph, size_t axis, uint32_t a, uint32_t b,
                                                  uint32_t out)
{
    (void)graph, (void)axis, (void)a, (void)b, (void)out;
    return xnn_status_unsupported_parameter;
}
#endif

/* States the addresses of the inputs and outputs; they stay the same for all runs. */
static inline enum xnn_status library_setup(xnn_runtime_t runtime, size_t count,
                                            const struct xnn_external_value *values)
{
#ifdef HAVE_XNN_SETUP_RUNTIME_V2
    const enum xnn_status status = xnn_reshape_runtime(runtime);

    return status == xnn_status_success ? xnn_setup_runtime_v2(runtime, count, values) : status;
#else
    return xnn_setup_runtime(runtime, count, values);
#endif
}
#endif
