/* exec/values/value.h - runtime values: reference-counted tensors, sequences, optionals and maps.
 *
 * inlay_value is the public object (inlay.h) and owns memory. Within a run most tensors have no object: they are places
 * in the slab, described by a run_value, which borrows. */
#ifndef EXEC_VALUE_H
#define EXEC_VALUE_H
#include "inlay/inlay.h"
#include "inlay/types.h"
#include <stdbool.h>

/* Frees the memory of a value; called once, when the last reference is dropped. */
typedef void (*value_free_fn)(void *owner, inlay_value *value);

struct inlay_value {
    uint32_t references; /* atomic */
    uint32_t kind;       /* INLAY_KIND_* */
    inlay_dtype dtype;   /* lists: type of the tensors in them */
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    int64_t count;             /* elements, or items */
    inlay_buffer buffer;       /* TENSOR; host domain except inside a run */
    uint64_t capacity;         /* size of the memory in bytes */
    inlay_value **items;       /* lists, in `list`; MAP: items[0] the keys, items[1] the values */
    struct value_items *list;  /* shared by lists that begin with the same items */
    value_free_fn free_memory; /* NULL: the memory is borrowed */
    void *owner;
    bool of_states;              /* see run_memory_take() */
    struct run_memory *from;     /* where the memory was allocated, a reference; NULL: malloc */
    struct value_import *import; /* atomic: a device's import of this memory; NULL: not requested yet */
    /* on a device: the fence of the last use by a stream or a run, which the next use must wait for; timeline 0:
     * none */
    inlay_fence ready;
    inlay_fence streams; /* on its own timeline; the value counts the signals requested from streams */
};

/* A tensor with its own 64-byte aligned memory, cleared only if `zeroed`. An invalid shape is
 * INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool zeroed,
                                          inlay_value **out_value, inlay_diag *diag);
/* The same with the run memory of a session; from may be NULL. */
INLAY_NODISCARD inlay_status value_create_from(struct run_memory *from, inlay_dtype dtype, uint32_t rank,
                                               const int64_t *dims, bool zeroed, inlay_value **out_value,
                                               inlay_diag *diag);
/* The same for a state. */
INLAY_NODISCARD inlay_status value_create_state(struct run_memory *from, inlay_dtype dtype, uint32_t rank,
                                                const int64_t *dims, bool zeroed, inlay_value **out_value,
                                                inlay_diag *diag);
/* Implement inlay_value_borrow(), inlay_value_create_strings(), inlay_value_ref(), inlay_value_unref() and
 * inlay_value_data(). */
INLAY_NODISCARD inlay_status value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data,
                                          uint64_t bytes, inlay_value **out_value, inlay_diag *diag);
INLAY_NODISCARD inlay_status value_create_strings(uint32_t rank, const int64_t *dims, const inlay_str *texts,
                                                  inlay_value **out_value, inlay_diag *diag);
inlay_value *value_ref(inlay_value *value);
void value_unref(inlay_value *value);
void *value_data(const inlay_value *value);
/* A tensor without memory; buffer.bytes is the size it needs. An invalid shape is INLAY_INVALID_ARGUMENT. */
INLAY_NODISCARD inlay_status value_describe(inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                            inlay_value **out_value, inlay_diag *diag);
/* A tensor in the device memory of a provider; the provider stays open as long as the value exists. See
 * inlay_session_value_create_on(). priority: INLAY_PRIORITY_* of the memory. */
struct provider;
INLAY_NODISCARD inlay_status value_create_on(const struct provider *provider, uint32_t priority, inlay_dtype dtype,
                                             uint32_t rank, const int64_t *dims, inlay_value **out_value,
                                             inlay_diag *diag);
/* The same in memory shared with the host: the value is a host value that the device can also write. */
INLAY_NODISCARD inlay_status value_create_shared(const struct provider *provider, uint32_t priority, inlay_dtype dtype,
                                                 uint32_t rank, const int64_t *dims, inlay_value **out_value,
                                                 inlay_diag *diag);
/* Returns whether the value has shared memory. *out is its buffer in that domain; domain INLAY_NONE: in any. */
bool value_is_shared(const inlay_value *value, uint32_t domain, inlay_buffer *out);
/* A tensor in device memory of the caller; release(arg), if not NULL, is called when the value is freed. After a
 * failure the caller still owns the memory. */
INLAY_NODISCARD inlay_status value_wrap_on(const struct provider *provider, const inlay_native_memory *memory,
                                           inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                           void (*release)(void *arg), void *arg, inlay_value **out_value,
                                           inlay_diag *diag);
/* The provider whose device holds the value; NULL: host memory. */
const struct provider *value_device(const inlay_value *value);
/* Imports the memory of a numeric tensor, host memory or that of another device, into a device: *out is the device's
 * buffer, valid as long as the value. False: the device cannot import it, or another one has imported it already. Any
 * number of threads. */
bool value_import(inlay_value *value, const struct provider *provider, uint32_t domain, inlay_buffer *out);
/* Memory that a device imported. */
struct value_import {
    const struct provider *provider; /* NULL: the provider refused the import */
    inlay_buffer buffer;
};
/* Releases the import. */
void value_end_import(struct value_import *import);
/* Reshapes an unshared tensor if its memory is large enough. */
bool value_reshape(inlay_value *value, inlay_dtype dtype, uint32_t rank, const int64_t *dims);
/* Returns whether the caller, who holds a reference, may reuse the tensor's memory: it holds the only reference, and
 * value_create() allocated the memory. Borrowed or imported memory may have readers that the count does not include. */
bool value_is_reusable(const inlay_value *value);
/* A list of `count` items, each of which gains a reference. */
INLAY_NODISCARD inlay_status value_create_list(uint32_t kind, inlay_dtype dtype, inlay_value *const *items,
                                               uint32_t count, inlay_value **out_value, inlay_diag *diag);
/* A list with the items of `list` and one more, in constant time unless another list was appended to it before. */
INLAY_NODISCARD inlay_status value_append(const inlay_value *list, inlay_value *item, inlay_value **out_value,
                                          inlay_diag *diag);

/* A value of a run. Borrowed: valid as long as its owner, or as its range in the slab is assigned to it. kind 0:
 * absent. */
typedef struct run_value {
    uint32_t kind;
    inlay_dtype dtype;
    uint32_t rank;
    /* not 0: a state in place, with capacity for this many rows along its axis; buffer covers all of them */
    uint32_t room;
    const int64_t *dims;
    inlay_buffer buffer;
    inlay_buffer alias; /* the same memory at its address in another domain; handle 0: none */
    inlay_value *owner; /* the object, if any; lists always have one */
} run_value;

/* Describes an object; value NULL gives an absent value. */
run_value run_value_of(inlay_value *value);
/* An object for the value: a new reference if it has one, otherwise a copy. String elements are copied deeply. */
INLAY_NODISCARD inlay_status run_value_to_object(const run_value *value, inlay_value **out_value, inlay_diag *diag);
int64_t run_value_count(const run_value *value); /* elements of a tensor */
/* "float[2,3]" for messages; returns text. */
const char *run_value_describe(const run_value *value, char text[128]);
#endif
