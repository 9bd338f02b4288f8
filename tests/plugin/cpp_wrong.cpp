/* Plugins whose signature text does not match the function: WRONG is the text. */
#include "inlay/operator.hpp"

static void copy(inlay::tensor<const float> x, inlay::tensor<float> y)
{
    y[0] = x[0];
}

INLAY_OPERATORS("wrong", "com.example", inlay::op<copy>("Copy", WRONG))
