/* api.h - OrtApi with its functions, for code that calls an ONNX Runtime: tests, and the execution provider. */
#ifndef ORT_API_H
#define ORT_API_H
#include "types.h"

struct OrtApi {
#define ENTRY(state, returns, name, params) returns(*name) params;
#include "api.def"
#undef ENTRY
};
#endif
