/* A custom operator in C++: com.example.Blend-1, its schema, its shapes and a provider that runs it. */
#include "inlay/operator.hpp"

template <class T>
static void blend(inlay::tensor<const T> a, inlay::tensor<const T> b, float alpha, inlay::tensor<T> y)
{
    if (a.count != b.count)
        throw std::invalid_argument("a and b differ in size");
    for (int64_t i = 0; i < y.count; i++)
        y[i] = static_cast<T>(alpha * a[i] + (1 - alpha) * b[i]);
}

INLAY_OPERATORS("blend", "com.example", inlay::op<blend<float>, blend<double>>("Blend", "a, b, alpha=0.5 -> y"))
