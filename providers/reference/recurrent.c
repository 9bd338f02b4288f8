/* LSTM, GRU and RNN: what several providers have (recurrent.h). */
#include "recurrent.h"
#include "reference.h"

const kit_table reference_recurrent = { recurrent_kernels, RECURRENT_KERNELS };
