/* LSTM, GRU and RNN. The implementation is shared by several providers (recurrent.h). */
#include "operators/instance.h"
#include "operators/recurrent/recurrent.h"
#include "operators/operators.h"

const kit_table OPERATOR(operators_recurrent) = { recurrent_kernels, RECURRENT_KERNELS };
