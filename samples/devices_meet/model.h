/* model.h - the model of this sample, as an ONNX file in memory. */
#ifndef MODEL_H
#define MODEL_H
#include <stddef.h>

enum { MODEL_ROWS = 48, MODEL_COLUMNS = 64, MODEL_RESULTS = 8 };

/* Writes the model: result[48, 8] = Relu(MatMul(Sqrt(Cast(frame[48, 64])), weights)), frame of uint8. Returns its size
 * in bytes; 0: `room` is too small. */
size_t write_model(unsigned char *out, size_t room);
#endif
