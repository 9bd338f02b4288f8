/* exec/values/value.h - what flows at run time: reference-counted tensors, sequences, optionals and maps.
 *
 * inlay_value is the public object (inlay.h) and the owner of memory. Inside a run most tensors have no object: they
 * are places in the slab, described by an rt_value, which borrows. */
#ifndef EXEC_VALUE_H
#define EXEC_VALUE_H
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include <stdbool.h>

/* Who gives the memory of a value back; called once, when the last reference goes. */
typedef void (*value_free_fn)(void *owner, inlay_value *value);

struct inlay_value {
    uint32_t references; /* atomic */
    uint32_t kind;       /* INLAY_KIND_* */
    inlay_dtype dtype;   /* of lists: of the tensors in them */
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    int64_t count;             /* elements, or items */
    inlay_buffer buffer;       /* TENSOR; host domain except inside a run */
    uint64_t capacity;         /* bytes that the memory has room for */
    inlay_value **items;       /* lists; MAP: items[0] the keys, items[1] the values */
    value_free_fn free_memory; /* NULL: the memory is borrowed */
    void *owner;
    struct run_memory *from;     /* that the memory came from, a reference; NULL: malloc */
    struct value_import *import; /* atomic: how a device knows this memory of the host's; NULL: none was asked */
    inlay_fence
        ready; /* on a device: what comes before the next use, a stream's work or a run's; timeline 0: nothing */
    inlay_fence streams; /* its own timeline, and how often streams were asked to signal it */
};

/* A tensor in 64-byte aligned memory of its own, not cleared unless zeroed. A bad shape is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool zeroed,
                                          inlay_value **out_value, inlay_diag *diag);
/* The same with memory of a session's runs; from may be NULL. */
INLAY_NODISCARD inlay_status value_create_from(struct run_memory *from, inlay_dtype dtype, uint32_t rank,
                                               const int64_t *dims, bool zeroed, inlay_value **out_value,
                                               inlay_diag *diag);
/* As inlay_value_borrow(), inlay_value_create_strings(), inlay_value_ref(), inlay_value_unref() and inlay_value_data().
 */
INLAY_NODISCARD inlay_status value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data,
                                          uint64_t bytes, inlay_value **out_value, inlay_diag *diag);
INLAY_NODISCARD inlay_status value_create_strings(uint32_t rank, const int64_t *dims, const inlay_str *texts,
                                                  inlay_value **out_value, inlay_diag *diag);
inlay_value *value_ref(inlay_value *value);
void value_unref(inlay_value *value);
void *value_data(const inlay_value *value);
/* A tensor without memory: buffer.bytes says how much it needs. A bad shape is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status value_describe(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                            inlay_value **out_value, inlay_diag *diag);
/* A tensor in the memory of a provider's device, which stays open for it; see inlay_session_value_create_on(). */
struct provider;
INLAY_NODISCARD inlay_status value_create_on(const struct provider *provider, inlay_dtype dtype, uint32_t rank,
                                             const int64_t *dims, inlay_value **out_value, inlay_diag *diag);
/* The same where that is the host's memory, too: the value is one of host memory, which the device can write. */
INLAY_NODISCARD inlay_status value_create_shared(const struct provider *provider, inlay_dtype dtype, uint32_t rank,
                                                 const int64_t *dims, inlay_value **out_value, inlay_diag *diag);
/* Is it such a value? *out is its memory as the device of that domain knows it; INLAY_NONE: of whichever. */
bool value_is_shared(const inlay_value *value, uint32_t domain, inlay_buffer *out);
/* The same over memory of others; release(arg), where there is one, is called when the value goes. After a failure the
 * memory is the caller's as before. */
INLAY_NODISCARD inlay_status value_wrap_on(const struct provider *provider, const inlay_native_memory *memory,
                                           inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                           void (*release)(void *arg), void *arg, inlay_value **out_value,
                                           inlay_diag *diag);
/* Whose device the value lies on; NULL: it is the host's. */
const struct provider *value_device(const inlay_value *value);
/* A tensor of numbers in host memory as a device reads it where it is: *out is its buffer there, as long as the value.
 * False: the device can't, or another has it already. Any number of threads. */
bool value_import(inlay_value *value, const struct provider *provider, uint32_t domain, inlay_buffer *out);
/* Host memory as a device knows it. */
struct value_import {
    const struct provider *provider; /* NULL: it refused */
    inlay_buffer buffer;
};
/* Ends that. */
void value_end_import(struct value_import *import);
/* Gives an unshared tensor another shape if its memory has room for it. */
bool value_reshape(inlay_value *value, inlay_dtype dtype, uint32_t rank, const int64_t *dims);
/* May the caller, who holds a reference, give the tensor's memory another use? Only when nobody else holds one and the
 * memory is value_create()'s: what was borrowed or imported may have readers that the count does not know. */
bool value_is_reusable(const inlay_value *value);
/* A list of count items, each gaining a reference. */
INLAY_NODISCARD inlay_status value_create_list(uint32_t kind, inlay_dtype dtype, inlay_value *const *items,
                                               uint32_t count, inlay_value **out_value, inlay_diag *diag);

/* A value of a run: borrowed, valid while its owner or its place in the slab is. kind 0: absent. */
typedef struct rt_value {
    uint32_t kind;
    inlay_dtype dtype;
    uint32_t rank;
    uint32_t room; /* not 0: a state in place, with room for so many along its axis; buffer has them all */
    const int64_t *dims;
    inlay_buffer buffer;
    inlay_buffer alias; /* the same memory as another domain knows it; handle 0: none does */
    inlay_value *owner; /* the object, if there is one; of lists always */
} rt_value;

/* The view of an object; value NULL gives an absent value. */
rt_value rt_from_value(inlay_value *value);
/* An object for the value: a reference when it has one, otherwise a copy. String elements are copied deeply. */
INLAY_NODISCARD inlay_status rt_to_value(const rt_value *value, inlay_value **out_value, inlay_diag *diag);
int64_t rt_count(const rt_value *value); /* elements of a tensor */
/* "float[2,3]" for messages; returns text. */
const char *rt_describe(const rt_value *value, char text[128]);
#endif
