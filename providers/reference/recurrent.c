/* LSTM, GRU and RNN: what several providers have (recurrent.h). */
#include "instance.h"
#include "recurrent.h"
#include "reference.h"

const kit_table OPERATOR(reference_recurrent) = { recurrent_kernels, RECURRENT_KERNELS };
