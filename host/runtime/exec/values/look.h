/* exec/values/input_signature.h - the signature of a step's inputs, as bytes that can be compared: their types and
 * dims, and the elements of those whose data may decide a shape. */
#ifndef EXEC_LOOK_H
#define EXEC_LOOK_H
#include "exec/values/value.h"

/* The signature that was stored last. All zero: none. */
struct look {
    void *data;
    size_t bytes, capacity;
};

/* Returns whether the tensor is so small that its elements may decide a shape. The limit is larger for integers. */
bool look_is_small(const rt_value *value);
/* Returns whether the elements of the value are part of its signature: small tensors in host memory. */
bool look_at_data(const rt_value *value);

/* Number of bytes that signature_write() writes for `count` inputs. */
size_t look_room(const rt_value *in, uint32_t count);
/* Writes the signature of in[count]; returns the number of bytes. */
size_t look_write(char *to, const rt_value *in, uint32_t count);

bool look_equals(const struct look *look, const char *data, size_t bytes);
/* Copies data. False: out of memory. */
bool look_keep(struct look *look, const char *data, size_t bytes);
void look_deinit(struct look *look);

#endif
