/* C++ operators with every kind of parameter, for test_cpp_operators.c. */
#include "inlay/operator.hpp"
#include <atomic>

static void affine(inlay::tensor<const float> x, int64_t times, inlay::optional<const float> scale, const char *mode,
                   double shift, inlay::call, inlay::tensor<float> y)
{
    for (int64_t i = 0; i < y.count; i++)
        y[i] = x[i] * (scale ? scale[0] : 1) * static_cast<float>(times) +
               (std::strcmp(mode, "plus") == 0 ? static_cast<float>(shift) : 0);
}

template <class T> static void repeat(inlay::tensor<const T> x, int64_t times, inlay::tensor<T> y)
{
    for (int64_t i = 0; i < times * x.count; i++)
        y[i] = x[i % x.count];
}
static void repeat_shape(inlay::shapes &s)
{
    if (s.in[0].rank != 1)
        throw std::invalid_argument("x is no vector");
    s.set(0, s.in[0].dims[0] * s.integer("times"));
}

/* Two outputs of different types, and a loop on several threads. */
static void split(inlay::call run, inlay::tensor<const float> x, inlay::tensor<float> whole, inlay::tensor<bool> isnot)
{
    std::atomic<int64_t> seen{ 0 };

    run.poll();
    run.parallel(x.count, 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            whole[i] = static_cast<float>(static_cast<int64_t>(x[i]));
            isnot[i] = whole[i] != x[i];
        }
        seen += end - begin;
    });
    if (seen != x.count)
        throw std::logic_error("a part is missing");
}

static void fail(inlay::tensor<const float> x, inlay::tensor<float>)
{
    if (x[0] == 1)
        throw std::invalid_argument("one is not wanted");
    if (x[0] == 2)
        throw std::bad_alloc();
    if (x[0] == 3)
        throw 3;
    throw std::runtime_error("it broke");
}

static void length(inlay::tensor<const float> x, const char *before, const char *text, inlay::tensor<float> y)
{
    for (int64_t i = 0; i < x.count; i++)
        y[i] = static_cast<float>(std::strlen(text)) + static_cast<float>(std::strlen(before)) / 8;
}

INLAY_OPERATORS("cpp", "com.example",
                inlay::op<affine>("Affine", "x, times=1, scale, mode='none', shift=0.5 -> y").with_doc("Scales."),
                inlay::op<repeat<float>, repeat<int64_t>>("Repeat", "x, times -> y").with_shape(repeat_shape),
                inlay::op<split>("Split2", "x -> whole, isnot").with_version(1), inlay::op<fail>("Fail", "x -> y"),
                inlay::op<length>("Length", "x, before='four', text='' -> y"))
