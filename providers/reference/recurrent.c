/* LSTM, GRU and RNN. The implementation is shared by several providers (recurrent.h). */
#include "reference/instance.h"
#include "common/recurrent.h"
#include "reference/reference.h"

const kit_table OPERATOR(reference_recurrent) = { recurrent_kernels, RECURRENT_KERNELS };
