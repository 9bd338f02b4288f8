/* exec/values/input_signature.h - the signature of a step's inputs, as bytes that can be compared: types, dims, and the
 * elements of inputs whose data may decide a shape. */
#ifndef EXEC_INPUT_SIGNATURE_H
#define EXEC_INPUT_SIGNATURE_H
#include "exec/values/value.h"

/* The signature that was stored last. All zero: none. */
typedef struct input_signature {
    void *data;
    size_t bytes, capacity;
} input_signature;

/* Returns whether the tensor is so small that its elements may decide a shape. The limit is larger for integers. */
bool signature_may_decide_shape(const run_value *value);
/* Returns whether the elements of the value are part of its signature: small tensors in host memory. */
bool signature_has_data(const run_value *value);

/* Number of bytes that signature_write() writes for `count` inputs. */
size_t signature_bytes(const run_value *in, uint32_t count);
/* Writes the signature of in[count]; returns the number of bytes. */
size_t signature_write(char *to, const run_value *in, uint32_t count);

bool signature_equals(const input_signature *signature, const char *data, size_t bytes);
/* Copies data. False: out of memory. */
bool signature_store(input_signature *signature, const char *data, size_t bytes);
void signature_deinit(input_signature *signature);

#endif
