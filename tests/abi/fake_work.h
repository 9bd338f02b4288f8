/* fake_work.h - the fake device between its files: fake_device.c says what it can do, fake_work.c prepares regions,
 * fake_queue.c runs them, fake_memory.c has the memory. */
#ifndef FAKE_WORK_H
#define FAKE_WORK_H
#include "fake_device.h"
#include "inlay/plugin.h"
#include <pthread.h>
#include <stdbool.h>

enum { MAX_BUFFERS = 4096, ALIGNMENT = 256, HANDLE_BASE = 0x7000, DL_DEVICE = 12 };

struct job;
struct device {
    const inlay_host *host;
    uint32_t domain; /* host-wide id of its memory */
    int64_t delay_us;
    int64_t lose_after; /* jobs until the device is lost, 0 = never */
    int64_t hang_at;    /* jobs until one never ends, 0 = never */
    int64_t memory_kib; /* of the device, 0 = as much as there is */
    uint32_t hold;      /* FAKE_FREE ... */
    bool host_input;    /* NonZero wants its input in host memory */
    int64_t link_us;    /* that a copy takes at least, by the clock, with the CPU kept busy */
    int64_t link_mb_s;  /* megabytes a second of copies, 0 = as fast as memory is */
    int64_t element_ps; /* what cost says of an element, 0 = every node costs next to nothing */
    bool bounded;       /* NonZero into a buffer of the largest size; otherwise it allocates */
    bool refuse;        /* offers nothing */
    bool unified;       /* its memory is the host's */
    bool in_place;      /* a region of one node may write where its first input is */
    bool imports;       /* it reads the host's memory where that is, at multiples of 64 */
    bool unordered;     /* jobs that are ready run before those that wait, the latest first */
    bool narrow;        /* passes bfloat16 from region to region */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct job *first, *last; /* queue */
    bool busy, stopping, lost;
    struct {
        char *data;
        uint64_t bytes;
        bool foreign;       /* somebody else's */
    } buffers[MAX_BUFFERS]; /* handle 0x7000 + i */
    fake_counters counters;
};

static inline void count(uint32_t *counter, int32_t by)
{
    (void)__atomic_fetch_add(counter, (uint32_t)by, __ATOMIC_RELAXED);
}

enum { OP_NEG, OP_RELU, OP_ADD, OP_MUL, OP_NONZERO, OP_COUNT };
int op_of(const inlay_node_info *node); /* -1: none of them */
/* The place of value in a list, INLAY_NONE if it is not there. */
uint32_t find(const uint32_t *list, uint32_t n, uint32_t value);

enum { FROM_INPUT, FROM_OUTPUT, FROM_INNER, FROM_CONSTANT };
struct operand {
    uint32_t from, index;
    uint32_t value; /* of the snapshot */
};

struct step {
    int op;
    uint32_t node; /* of the snapshot */
    struct operand in[2], out;
    uint32_t in_count;
};

struct inlay_compiled {
    struct step *steps;
    inlay_buffer *constants; /* uploaded */
    uint32_t step_count, constant_count, inner_count;
};

struct inlay_instance {
    int64_t dims[16]; /* of NonZero's input */
    uint32_t rank;
    uint64_t inner_bytes; /* of the largest inner value in the workspace, aligned: each has as many */
    int64_t counts[];     /* of each step: elements of every float tensor there */
};

/* Are the addresses those that were promised to stay when the binding was made? Counts misuse. */
void check_binding(struct device *device, const inlay_exec_args *args);

/* The device's thread. */
void *work(void *arg);

/* Where a buffer lies, if it is what the host may hand in and holds `bytes`; NULL otherwise. */
char *address(struct device *device, const inlay_buffer *buffer, uint64_t bytes);

/* Entries of inlay_provider. */
inlay_status buffer_map(void *state, const inlay_buffer *buffer, void **out_address, inlay_diag *diag);
void buffer_unmap(void *state, const inlay_buffer *buffer);
inlay_status export_native(void *state, const inlay_buffer *buffer, inlay_native_memory *out, inlay_diag *diag);
inlay_status import_native(void *state, uint32_t domain, const inlay_native_memory *memory, inlay_buffer *out,
                           inlay_diag *diag);
inlay_status import_host(void *state, uint32_t domain, void *address, uint64_t bytes, inlay_buffer *out,
                         inlay_diag *diag);
inlay_status buffer_copies(void *state, const inlay_copy_request *request, inlay_diag *diag);
inlay_status bind(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                  inlay_binding **out_binding, inlay_diag *diag);
void release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding);
inlay_status buffer_alloc(void *state, uint32_t domain, uint64_t bytes, inlay_buffer *out, inlay_diag *diag);
void buffer_free(void *state, const inlay_buffer *buffer);
inlay_status buffer_copy(void *state, inlay_run *run, const inlay_buffer *source, const inlay_buffer *target,
                         const inlay_fence *waits, uint32_t wait_count, inlay_fence signal, inlay_diag *diag);
inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                     inlay_diag *diag);
void release_compiled(void *state, inlay_compiled *compiled);
inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                        inlay_instance **out_instance, inlay_diag *diag);
void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args);
#endif
