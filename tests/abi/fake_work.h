/* fake_work.h - internal header of the fake device: fake_device.c describes and creates it, fake_work.c compiles
 * regions, fake_queue.c runs them, fake_memory.c manages its memory. */
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
    int64_t memory_kib; /* of the device, 0 = no limit */
    uint32_t hold;      /* FAKE_FREE ... */
    bool host_input;    /* NonZero reads its input from host memory */
    int64_t link_us;    /* minimum time of a copy, by busy waiting */
    int64_t link_mb_s;  /* bandwidth of copies in MB/s, 0 = no limit */
    int64_t element_ps; /* predicted cost of an element, 0 = every node is nearly free */
    bool bounded;       /* NonZero writes into a buffer of the largest size; otherwise it allocates */
    bool refuse;        /* offers nothing */
    bool unified;       /* it shares the memory of the host */
    bool in_place;      /* a region of one node may write into the buffer of its first input */
    bool imports;       /* it reads imported host memory in place, at multiples of 64 */
    bool no_domain;     /* import_native() leaves the buffer's domain 0 */
    bool unordered;     /* ready jobs run before jobs that wait, the latest first */
    bool narrow;        /* regions exchange bfloat16 */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct job *first, *last; /* queue */
    bool busy, stopping, lost;
    struct {
        char *data;
        uint64_t bytes;
        bool foreign;       /* external memory, not to be freed */
    } buffers[MAX_BUFFERS]; /* handle 0x7000 + i */
    fake_counters counters;
};

static inline void count(uint32_t *counter, int32_t by)
{
    (void)__atomic_fetch_add(counter, (uint32_t)by, __ATOMIC_RELAXED);
}

enum { OP_NEG, OP_RELU, OP_ADD, OP_MUL, OP_NONZERO, OP_COUNT };
int op_of(const inlay_node_info *node); /* -1: another operator */
/* Returns the index of a value in a list, INLAY_NONE if it is missing. */
uint32_t find(const uint32_t *list, uint32_t n, uint32_t value);

enum { FROM_INPUT, FROM_OUTPUT, FROM_INNER, FROM_CONSTANT };
struct operand {
    uint32_t from, index;
    uint32_t value; /* index in the snapshot */
};

struct step {
    int op;
    uint32_t node; /* index in the snapshot */
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
    uint64_t inner_bytes; /* size of each inner value in the workspace: that of the largest, aligned */
    int64_t counts[];     /* [step_count] elements of each float tensor of the step */
};

/* Checks that the addresses are those of the binding; counts misuse otherwise. */
void check_binding(struct device *device, const inlay_exec_args *args);

/* The function of the device's thread. */
void *work(void *arg);

/* Returns the address of a valid buffer that holds `bytes`; otherwise counts misuse and returns NULL. */
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
