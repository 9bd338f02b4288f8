/* A custom operator in C++: com.example.Blend-1, its schema, its shapes, an example and a provider that runs it. */
#define INLAY_NOTE_VERSION "1.1.0"
#define INLAY_OPERATORS_DESCRIPTION "weighted sums of two tensors"
#include "inlay/operator.hpp"

/* y = alpha * a + (1 - alpha) * b; larger[i], if the node asks for it, is whether a[i] > b[i]. */
template <class T>
static void blend(inlay::tensor<const T> a, inlay::tensor<const T> b, float alpha, inlay::call run, inlay::tensor<T> y,
                  inlay::optional<bool> larger)
{
    if (a.count != b.count)
        throw std::invalid_argument("a and b differ in size");
    run.parallel(y.count, 16384, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            y[i] = static_cast<T>(alpha * a[i] + (1 - alpha) * b[i]);
            if (larger)
                larger[i] = a[i] > b[i];
        }
    });
}

INLAY_OPERATORS(
    "blend", "com.example",
    inlay::op<blend<float>, blend<double>, blend<inlay::float16>>("Blend", "a, b, alpha=0.5 -> y, larger")
        .with_doc("The weighted sum of two tensors of the same shape.")
        .with_poll(10)
        .with_cost([](const inlay::shapes &s, inlay_cost &cost) {
            cost.flops = static_cast<double>(s.in[0].count()); /* one fused operation an element */
        })
        .with_example({ "a quarter",
                        { inlay::array::of<float>({ 2 }, { 4, 8 }), inlay::array::of<float>({ 2 }, { 0, 16 }) },
                        { inlay::array::of<float>({ 2 }, { 1, 14 }), inlay::array::of<bool>({ 2 }, { true, false }) },
                        { { "alpha", 0.25 } } }))
