/* The table of operators. */
#include "cpu/quantized/quant.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/nbits_weights.h"

const cpu_operator cpu_operator_rows[] = {
#define X(op, first, last, family, takes) { op, first, last, &family, takes, 0 },
#include "cpu/region/integers.def"
#undef X
#define X(op, first, last, family, floats) { op, first, last, &family, NULL, floats },
#include "cpu/region/operators.def"
#undef X
};
const uint32_t cpu_operator_count = KIT_COUNT(cpu_operator_rows);
