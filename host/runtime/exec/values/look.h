/* exec/values/look.h - what the inputs of a step look like, as bytes that can be compared: their types and dims, and
 * the elements of those whose data may decide a shape. */
#ifndef EXEC_LOOK_H
#define EXEC_LOOK_H
#include "exec/values/value.h"

/* How the inputs looked when they were last kept. All zero: never. */
struct look {
    void *data;
    size_t bytes, capacity;
};

/* Are these so few elements that they may decide a shape? Of integers that is more than of others. */
bool look_is_small(const rt_value *value);
/* Whether the elements of value are part of how it looks: such tensors in host memory. */
bool look_at_data(const rt_value *value);

/* How many bytes look_write writes. */
size_t look_room(const rt_value *in, uint32_t count);
/* Writes how in [count] looks; returns the number of bytes. */
size_t look_write(char *to, const rt_value *in, uint32_t count);

bool look_equals(const struct look *look, const char *data, size_t bytes);
/* Copies data; false: no memory. */
bool look_keep(struct look *look, const char *data, size_t bytes);
void look_deinit(struct look *look);

#endif
