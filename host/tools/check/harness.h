/* check/harness.h - compiles, specialises and runs a case on a provider, in memory that detects writes out of bounds.
 *
 *     harness_open(check, provider, &built, entry, threads, &harness, &diag)      assess, compile, specialize
 *     harness_run(&harness, &options, &result, &diag)                             any number of times
 *     harness_close(&harness)
 *
 * Every tensor of a run is placed between guard pages. If its alignment leaves bytes between its end and the page, they
 * are filled with a pattern that is verified after the run. */
#ifndef CHECK_HARNESS_H
#define CHECK_HARNESS_H
#include "base/memory.h"
#include "check/case.h"
#include "check/constants.h"
#include "check/frozen.h"
#include "check/loaded.h"
#include "check/shown.h"

/* Memory of a device.
 *
 * A tensor inside a larger buffer of the provider, with a margin on both sides. */

typedef struct device_tensor {
    inlay_buffer whole; /* as returned by buffer_alloc; handle 0: none */
    inlay_buffer given; /* the part that the plugin receives as the tensor */
    uint64_t margin;    /* bytes of the pattern on each side of it */
} device_tensor;

/* The provider and the timeline that copies signal. */
typedef struct device_link {
    const loaded_provider *provider;
    uint64_t timeline, point;
} device_link;

/* Advances the timeline by one point and returns it. */
inlay_fence device_point(device_link *link);
/* Waits for the fence if the provider is asynchronous; other providers do not signal fences. */
INLAY_NODISCARD inlay_status device_wait(const device_link *link, inlay_fence fence, inlay_diag *diag);
/* Copies between host memory and a buffer, and waits until the copy is done. */
INLAY_NODISCARD inlay_status device_copy(device_link *link, void *host, const inlay_buffer *device, uint64_t bytes,
                                         bool to_device, inlay_diag *diag);
/* alignment of the tensor: a power of two, or 0 for that of the domain. The caller frees out->whole with buffer_free if
 * its handle is not 0, also after a failure. */
INLAY_NODISCARD inlay_status device_tensor_alloc(const loaded_provider *provider, uint32_t domain, uint64_t bytes,
                                                 uint64_t alignment, device_tensor *out, inlay_diag *diag);
/* Writes the margins and the tensor: data, or bytes of `fill` if it is NULL. */
INLAY_NODISCARD inlay_status device_tensor_fill(device_link *link, const device_tensor *tensor, const void *data,
                                                uint8_t fill, struct arena *arena, inlay_diag *diag);
/* Reads the tensor into memory of the arena. *out_damaged: the margins were overwritten. */
INLAY_NODISCARD inlay_status device_tensor_read(device_link *link, const device_tensor *tensor, struct arena *arena,
                                                void **out_data, bool *out_damaged, inlay_diag *diag);

enum { HARNESS_REFUSED, HARNESS_OFFERED, HARNESS_SILENT, HARNESS_FAILED };
typedef struct harness_answer {
    uint32_t kind; /* HARNESS_REFUSED ... */
    inlay_offer offer;
    uint32_t node;                                          /* offer.nodes points to it */
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS]; /* copies */
    char reason[256];
    uint32_t code; /* INLAY_REFUSE_* of a refusal */
} harness_answer;

void harness_assess(const loaded_provider *provider, const case_instance *built, harness_answer *out);
/* Calls cost for the offer at the shapes of the case. */
inlay_status harness_cost(const loaded_provider *provider, const case_instance *built, const harness_answer *answer,
                          uint32_t threads, inlay_cost *out);

/* The memory domain of values for which the offer names no placement. */
uint32_t harness_default_domain(const loaded_provider *provider);

/* Reports a failure of the plugin whose status is not one of inlay/status.h, or that has no message. */
void harness_check_answer(struct check *check, const loaded_provider *provider, const char *function,
                          inlay_status status, const inlay_diag *diag);

/* Several nodes of a graph, compiled as one. */
typedef struct harness_region {
    const uint32_t *nodes;   /* [node_count] ascending */
    const uint64_t *cookies; /* [offer_count] */
    uint32_t node_count, offer_count;
} harness_region;

struct harness {
    struct check *check;
    const loaded_provider *provider;
    const case_instance *built;
    const op_case *entry;
    harness_answer answer;
    const harness_region *region; /* NULL: the one node of the case */
    struct frozen snapshot;       /* the graph passed to compile; inaccessible once compile has returned */
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_output_plan plans[CASE_OUTPUTS];
    uint32_t in_domains[CASE_INPUTS], out_domains[CASE_OUTPUTS]; /* memory domains of the tensors */
    uint8_t *constant_decisions;                                 /* [value_count] inlay_compile_request.constants */
    struct constant_set constants;
    struct shown compile_args, specialize_args; /* inaccessible once the call has returned */
    struct arena arena;
    uint64_t workspace_bytes, workspace_alignment;
    uint32_t threads;
    const char *phase; /* the current phase; after a failure, the one that failed */
};

/* Runs assess, compile and specialize. After a failure there is nothing to close, and harness->phase names the phase. A
 * refused case is INLAY_UNSUPPORTED in phase "assess". */
INLAY_NODISCARD inlay_status harness_open(struct check *check, const loaded_provider *provider,
                                          const case_instance *built, const op_case *entry, uint32_t threads,
                                          struct harness *harness, inlay_diag *diag);
/* The same for a region. `built` holds the inputs and outputs of the region, `entry` the elements of its inputs, and
 * `placements` the placements that its offers name. */
INLAY_NODISCARD inlay_status harness_open_region(struct check *check, const loaded_provider *provider,
                                                 const case_instance *built, const op_case *entry,
                                                 const harness_region *region, const inlay_placement *placements,
                                                 uint32_t placement_count, struct harness *harness, inlay_diag *diag);
/* Calls release_instance and specialize again. After a failure the harness is closed. */
INLAY_NODISCARD inlay_status harness_specialize_again(struct harness *harness, inlay_diag *diag);
/* Another instance of the region of *of, for the shapes of `built`, whose graph has the same structure. Close it with
 * harness_close_instance(), before *of. */
INLAY_NODISCARD inlay_status harness_open_instance(const struct harness *of, const case_instance *built,
                                                   const op_case *entry, struct harness *out, inlay_diag *diag);
void harness_close_instance(struct harness *harness);
void harness_close(struct harness *harness);

enum { HARNESS_WAITS = 32 }; /* most fences that a run waits for */

/* Fences that a run of an asynchronous provider waits for, and the order in which they are signalled. */
enum { FENCES_ASCENDING, FENCES_DESCENDING, FENCES_LAST_FIRST, FENCES_MIXED };
typedef struct harness_fences {
    uint32_t count; /* at most 24 */
    uint32_t order; /* FENCES_* */
    bool quiesce;   /* call quiesce before the first one is signalled; the provider cannot be used again then */
} harness_fences;

/* A run that is in flight together with others, see in_flight.c. Its signal has a value above 2^32. */
typedef struct harness_flight {
    inlay_fence after;   /* the work that it waits for */
    bool after_own;      /* signalled by the provider */
    inlay_fence signal;  /* out */
    inlay_status status; /* out: of execute */
    uint32_t submitted;  /* atomic, out: execute has returned, or was never called */
    const uint32_t *end; /* atomic: 1 = the fences and the memory of the run are no longer needed */
} harness_flight;

/* Options of a run. With {0} the harness runs the case as the host does. */
typedef struct harness_options {
    /* inputs and outputs aligned to their elements only, as buffers of users may be; offsets in host buffers; unknown
     * numbers of priority and power; bind without the addresses of inputs and outputs */
    bool tight;
    uint8_t fill;  /* initial bytes of workspace and outputs */
    bool in_place; /* use the aliases that the output plans allow */
    bool unbound;  /* execute gets no binding */
    bool quiet;    /* do not report phases: for runs on other threads than the checker's */
    /* Not NULL: runs again in the same memory with the elements of this case, whose shapes and constants are the same.
     * The result is that of the second run. Outputs hold the results of the first run when the second one begins, and
     * so does the workspace, unless `poisoned` is set: then it is filled with other bytes in between. */
    const op_case *then;
    bool poisoned;
    bool queued;         /* inputs are still being copied when execute is called; asynchronous providers only */
    inlay_status poison; /* with queued: status of the fence that the copies wait for; INLAY_OK = success */
    const harness_fences *fences; /* NULL = none */
    harness_flight *flight;       /* NULL = none; asynchronous providers only */
    uint32_t priority;            /* INLAY_PRIORITY_* */
    const uint32_t *cancel;       /* NULL = never */
    /* Not NULL: execute stops when it first reads the second page of its largest input. The harness sets from and
     * bytes; they stay 0 if no input in host memory has two pages. */
    struct crash_hold *hold;
} harness_options;

typedef struct harness_output {
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    int64_t count;
    void *data; /* in the result's arena */
    uint64_t bytes;
} harness_output;

typedef struct harness_result {
    harness_output out[CASE_OUTPUTS];
    uint32_t out_count;
    double ns;           /* duration of execute, including asynchronous work */
    uint64_t threads;    /* started by the plugin during execute, if heap_watch() was called */
    uint64_t heap_calls; /* allocations by the plugin during execute, likewise */
    bool blocked;        /* execute waited for its fences, although the sizes of all outputs were known */
    char fault[256];     /* the first violation of the contract, or empty */
    const char *fault_fix;
    struct arena arena;
} harness_result;

/* Runs once. INLAY_OK with a fault: the plugin violated the contract, and outputs may be missing. Any thread: the
 * harness is read-only. Deinitialise *out after a failure, too. */
INLAY_NODISCARD inlay_status harness_run(const struct harness *harness, const harness_options *options,
                                         harness_result *out, inlay_diag *diag);
void harness_result_deinit(harness_result *result);
#endif
