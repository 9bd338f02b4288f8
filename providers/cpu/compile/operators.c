/* The table of operators. */
#include "quantized/quant.h"
#include "weights/halves.h"
#include "weights/low_bit.h"
#include "weights/nbits_weights.h"

const cpu_operator cpu_operator_rows[] = {
#define X(op, first, last, family, takes) { op, first, last, &family, takes, 0 },
#include "region/integers.def"
#undef X
#define X(op, first, last, family, floats) { op, first, last, &family, NULL, floats },
#include "region/operators.def"
#undef X
};
const uint32_t cpu_operator_count = KIT_COUNT(cpu_operator_rows);
