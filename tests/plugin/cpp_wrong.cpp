/* Plugins whose signature text does not match the function: WRONG is the text. WRONG_STATE: the
 * function has a state that nothing prepares. */
#include "inlay/operator.hpp"

#ifdef WRONG_STATE
#define STATE inlay::state<int>,
#else
#define STATE
#endif

static void copy(STATE inlay::tensor<const float> x, inlay::tensor<float> y)
{
    y[0] = x[0];
}

INLAY_OPERATORS("wrong", "com.example", inlay::op<copy>("Copy", WRONG))
