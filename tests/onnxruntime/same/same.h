/* same.h - a program for ONNX Runtime's C interface, compiled with the header of a distribution, that prints the result
 * of each function. Two libraries with the same behaviour print the same; see same.sh. */
#ifndef SAME_H
#define SAME_H
#include <onnxruntime_c_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "onnx_bytes.h"

extern const OrtApi *api;
extern OrtEnv *env;
extern OrtAllocator *allocator;

/* Counts each function once. */
void note(const char *name);
/* Prints the function, and "ok" or the code of its failure, and releases the status; true: it succeeded. */
bool called(const char *name, OrtStatus *status);
/* Prints a result of the function, formatted and indented by four blanks. */
void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CALL: calls a function that returns a status. USE: calls any other function. */
#define CALL(name, ...) called(#name, (note(#name), api->name(__VA_ARGS__)))
#define USE(name, ...) (note(#name), api->name(__VA_ARGS__))

OrtMemoryInfo *cpu(void);
/* Creates a tensor over data with the given shape. */
OrtValue *over(ONNXTensorElementDataType type, void *data, size_t bytes, size_t rank, const int64_t *dims);
void print_shape(const OrtTensorTypeAndShapeInfo *info);
void print_type(const OrtTypeInfo *type);
void print_floats(OrtValue *value);
/* Creates a session from the bytes; NULL on failure. */
OrtSession *open_bytes(const onnx_bytes *file, const OrtSessionOptions *options);

void values(void);
void types(void);
void memory(void);
void sparse(void);
void environments(void);
void sessions(void);
void runs(void);
void bindings(void);
void kernels(void);
void failures(void);
#endif
