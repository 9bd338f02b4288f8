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
    int64_t lose_after;      /* jobs until the device is lost, 0 = never */
    int64_t hang_at;         /* number of the job that never ends, 0 = none */
    int64_t memory_kib;      /* of the device, 0 = no limit */
    uint32_t hold;           /* FAKE_FREE ... */
    bool host_input;         /* NonZero reads its input from host memory */
    int64_t link_us;         /* minimum time of a copy, by busy waiting */
    int64_t link_mb_s;       /* bandwidth of copies in MB/s, 0 = no limit */
    int64_t element_ps;      /* predicted cost of an element, 0 = every node is nearly free */
    bool bounded;            /* NonZero writes into a buffer of the largest size; otherwise it allocates */
    bool refuse;             /* offers nothing */
    bool unified;            /* the device shares the memory of the host */
    bool in_place;           /* a region of one node may write into the buffer of its first input */
    bool imports;            /* the device reads imported host memory in place, at multiples of 64 */
    int64_t shares;          /* 1: its memory can be exported as shared memory; 2: it imports such memory; 3: both */
    int64_t workspace_align; /* alignment of workspaces, at least ALIGNMENT */
    bool lists_kernels;      /* the provider has inlay.kernels/1, whose list fails after a kernel */
    bool zero_handle;        /* buffer_alloc() succeeds with handle 0 */
    bool no_domain;          /* buffer_import() leaves the buffer's domain 0 */
    bool unordered;          /* ready jobs run before jobs that wait, the latest first */
    bool narrow;             /* regions exchange bfloat16 */
    bool echo;               /* results are numbers of the run instead of those of the operators */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct job *first, *last; /* queue */
    bool busy, stopping, lost;
    uint32_t unfinished; /* jobs whose fence is not signalled; atomic */
    struct {
        char *data;
        uint64_t bytes;
        uint64_t mapped; /* bytes of the mapping of fd; 0: no shared memory */
        int fd;
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
uint32_t find(const uint32_t *list, uint32_t count_of_list, uint32_t value);

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
    uint32_t in_flight;   /* jobs; atomic */
    uint64_t inner_bytes; /* size of each inner value in the workspace: that of the largest, aligned */
    int64_t counts[];     /* [step_count] elements of each float tensor of the step */
};

/* Checks that the addresses are those of the binding; counts misuse otherwise. */
void check_binding(struct device *device, const inlay_exec_args *args);

/* The function of the device's thread. */
void *work(void *arg);

/* Returns the address of a valid buffer that holds `bytes`; otherwise counts misuse and returns NULL. */
char *address(struct device *device, const inlay_buffer *buffer, uint64_t bytes);

/* Allocates a buffer, as buffer_alloc does, for the device itself. */
inlay_status fake_alloc(struct device *device, uint32_t domain, uint64_t bytes, uint64_t alignment, inlay_buffer *out,
                        inlay_diag *diag);
/* Frees a buffer of the device. */
void fake_free(struct device *device, const inlay_buffer *buffer);

/* Entries of inlay_provider. */
inlay_status buffer_map(void *state, const inlay_map_request *request, void **out_address, inlay_diag *diag);
void buffer_unmap(void *state, const inlay_unmap_request *request);
inlay_status buffer_export(void *state, const inlay_export_request *request, inlay_native_memory *out,
                           inlay_diag *diag);
inlay_status buffer_import(void *state, const inlay_import_request *request, inlay_buffer *out, inlay_diag *diag);
inlay_status buffer_copy(void *state, const inlay_copy_request *request, inlay_diag *diag);
inlay_status bind(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                  inlay_binding **out_binding, inlay_diag *diag);
void release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding);
inlay_status buffer_alloc(void *state, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag);
void buffer_free(void *state, const inlay_free_request *request);
inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                     inlay_diag *diag);
void release_compiled(void *state, inlay_compiled *compiled);
inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                        inlay_instance **out_instance, inlay_diag *diag);
void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args);
#endif
