/* check/harness.h - a case clamped into a provider: compiled, specialised and run, with memory that tells who
 * oversteps.
 *
 *     harness_open(c, provider, &one, k, threads, &b)      assess, compile, specialize
 *     harness_run(&b, &how, &result)                       any number of times
 *     harness_close(&b)
 *
 * Every tensor of a run lies between forbidden pages. What cannot touch a page's end, because it must start at a
 * multiple of 64, is followed by bytes of a pattern that are looked at afterwards. */
#ifndef CHECK_HARNESS_H
#define CHECK_HARNESS_H
#include "base/memory.h"
#include "check/case.h"
#include "check/frozen.h"
#include "check/loaded.h"

/* ------------------------------------------------------------------ memory of a device
 *
 * A buffer of the provider's that is larger than the tensor in it on both sides. */

typedef struct device_tensor {
    inlay_buffer whole; /* as buffer_alloc gave it; handle 0: none */
    inlay_buffer given; /* the part that the tensor lies in */
    uint64_t margin;    /* bytes on each side of it, of a pattern */
} device_tensor;

/* What copies need: the provider, and a timeline to wait on. */
typedef struct device_link {
    const loaded_provider *provider;
    uint64_t timeline, point;
} device_link;

/* The next point of the timeline. */
inlay_fence device_point(device_link *link);
/* Waits if the provider is asynchronous; its fences mean nothing otherwise. */
INLAY_NODISCARD inlay_status device_wait(const device_link *link, inlay_fence fence, inlay_diag *diag);
/* Copies between host memory and a buffer, and waits. */
INLAY_NODISCARD inlay_status device_copy(device_link *link, void *host, const inlay_buffer *device, uint64_t bytes,
                                         bool to_device, inlay_diag *diag);
/* The caller frees whole with buffer_free where its handle is not 0, also after a failure. */
INLAY_NODISCARD inlay_status device_tensor_alloc(const loaded_provider *provider, uint32_t domain, uint64_t bytes,
                                                 device_tensor *out, inlay_diag *diag);
/* Writes the margins and the tensor: data, or where it is NULL fill. */
INLAY_NODISCARD inlay_status device_tensor_fill(device_link *link, const device_tensor *tensor, const void *data,
                                                uint8_t fill, struct arena *arena, inlay_diag *diag);
/* Reads the tensor into memory of a; hurt: somebody wrote into the margins. */
INLAY_NODISCARD inlay_status device_tensor_read(device_link *link, const device_tensor *tensor, struct arena *arena,
                                                void **out_data, bool *out_hurt, inlay_diag *diag);

/* ------------------------------------------------------------------ what a provider says of a case */

enum { HARNESS_REFUSED, HARNESS_OFFERED, HARNESS_SILENT, HARNESS_FAILED };
typedef struct harness_answer {
    uint32_t kind; /* HARNESS_REFUSED ... */
    inlay_offer offer;
    uint32_t node;                                          /* that offer.nodes points to */
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS]; /* copies */
    char why[256];
} harness_answer;

void harness_assess(const loaded_provider *provider, const case_instance *built, harness_answer *out);
/* cost of the offer at the case's shapes. */
inlay_status harness_cost(const loaded_provider *provider, const case_instance *built, const harness_answer *answer,
                          uint32_t threads, inlay_cost *out);

/* ------------------------------------------------------------------ the bench */

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
    struct frozen seen;           /* the graph that compile was shown: it is gone when the call returns */
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_output_plan plans[CASE_OUTPUTS];
    uint32_t in_domains[CASE_INPUTS], out_domains[CASE_OUTPUTS]; /* where the tensors lie */
    uint8_t *fates;                                              /* [value_count] of constants */
    struct arena arena;
    uint64_t workspace_bytes, workspace_alignment;
    uint32_t threads;
    const char *phase; /* that failed */
};

/* Assess, compile, specialize. A failure leaves nothing to close; bench->phase names it. An offer that was refused is
 * INLAY_UNSUPPORTED with phase "assess". */
INLAY_NODISCARD inlay_status harness_open(struct check *check, const loaded_provider *provider,
                                          const case_instance *built, const op_case *entry, uint32_t threads,
                                          struct harness *harness, inlay_diag *diag);
/* The same of a region: `one` says what enters and leaves, k's inputs are what enters. placements: of its offers. */
INLAY_NODISCARD inlay_status harness_open_region(struct check *check, const loaded_provider *provider,
                                                 const case_instance *built, const op_case *entry,
                                                 const harness_region *region, const inlay_placement *placements,
                                                 uint32_t placement_count, struct harness *harness, inlay_diag *diag);
void harness_close(struct harness *harness);

/* How to run. {0} is a run as the host does it. */
typedef struct harness_options {
    bool tight;             /* inputs and outputs aligned to their elements only, as a user's may be */
    uint8_t fill;           /* what the workspace and outputs hold before */
    bool in_place;          /* use the alias that the plan offers */
    bool silent;            /* names no phases: for runs in threads of their own */
    bool queued;            /* inputs are still being made when execute is called; asynchronous providers only */
    inlay_status poison;    /* with queued: what becomes of the first input instead, INLAY_OK = it is made */
    const uint32_t *cancel; /* NULL = never */
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
    double ns;           /* of execute, until its work was done */
    uint64_t threads;    /* that the plugin started meanwhile, likewise */
    uint64_t heap_calls; /* that the plugin made meanwhile, if it is watched */
    char fault[256];     /* a breach of the contract that was seen, or empty */
    const char *fault_fix;
    struct arena arena;
} harness_result;

/* Runs once. INLAY_OK with a fault: outputs may be there, but a rule was broken. Any thread, bench is read-only. */
INLAY_NODISCARD inlay_status harness_run(const struct harness *harness, const harness_options *how, harness_result *out,
                                         inlay_diag *diag);
void harness_result_deinit(harness_result *result);
#endif
