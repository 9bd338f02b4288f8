/* LSTM, GRU and RNN. The implementation is shared by several providers (recurrent.h). */
#include "instance.h"
#include "recurrent.h"
#include "reference.h"

const kit_table OPERATOR(reference_recurrent) = { recurrent_kernels, RECURRENT_KERNELS };
