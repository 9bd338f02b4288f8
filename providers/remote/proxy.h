/* remote/proxy.h - the host's side of an isolated provider: the objects behind the functions of its table. Private to
 * this folder.
 *
 * What the process returned (cookies of offers, compiled regions, instances) is lost when it ends. So each object keeps
 * the request that created it, which is in the shared arguments, and is created again before its next use in another
 * generation of the process. */
#ifndef ISOLATE_PROXY_H
#define ISOLATE_PROXY_H
#include "remote/description.h"
#include "remote/pack.h"
#include "remote/process.h"

/* The offers of one call of assess. The cookie that the host gets for an offer is record->first_cookie + its index. */
typedef struct proxy_offer {
    uint64_t cookie; /* of the process in generation `generation` of the record */
    uint32_t node_count;
    bool known; /* the process has reported it in this generation */
    uint32_t *nodes;
} proxy_offer;
typedef struct proxy_record {
    struct proxy_record *next, *next_of_graph;
    isolate_graph *graph;
    isolate_arena arena;
    const inlay_assess_request *request; /* in the shared arguments */
    uint64_t first_cookie;
    proxy_offer *offers; /* [offer_count] */
    uint32_t offer_count;
    uint32_t generation;
    uint32_t uses; /* number of its offers in compiled regions */
    uint32_t owner_count;
    const inlay_graph **owners; /* [owner_count] the host's graphs that it answers, until proxy_forget() */
} proxy_record;

enum { PROXY_GRAPH_LISTS = 256 };

/* An open provider: the state that create returns. */
typedef struct isolate_proxy {
    const isolate_info *info;
    const inlay_host *host;
    isolate_process process;
    /* Guarded by process.lock: */
    isolate_arena arena;
    isolate_constants constants;
    isolate_graph *graphs[PROXY_GRAPH_LISTS]; /* by key */
    proxy_record *records;
    uint64_t next_cookie;
    bool untrimmed; /* constants may be in the shared memory that nothing reads */
    /* guards the offers, generations and lives of all records; taken before process.lock */
    pthread_mutex_t renew_lock;
    /* Written before create returns: */
    isolate_start *start; /* in the shared arguments */
    inlay_ext_weights weights;
    inlay_ext_integers integers;
    uint64_t limit_ms; /* atomic */
} isolate_proxy;

/* A constant that a compiled region reads. */
typedef struct proxy_constant {
    isolate_constant *constant;
    const void *data; /* in the host's memory */
    uint32_t value;
    bool borrowed; /* the process reads it in each run */
} proxy_constant;

typedef struct proxy_compiled {
    isolate_graph *graph;
    isolate_arena arena;
    isolate_compile *request; /* in the shared arguments */
    uint64_t *cookies;        /* [offer_count] the host's */
    bool holds_offers;        /* see proxy_hold_offers() */
    uint8_t *answers;         /* [value_count] in the shared results */
    uint8_t *used;            /* [value_count] other than 0: a value of the region's nodes */
    proxy_constant *constants;
    uint32_t constant_count;
    pthread_mutex_t lock; /* guards generation and remote of the region and of its instances */
    uint32_t generation;
    uint64_t remote;
} proxy_compiled;

/* The copy of a tensor in the shared memory. */
typedef struct proxy_copy {
    char *data;
    size_t room; /* allocated bytes */
} proxy_copy;

/* The memory of one execute: its arguments, and copies of the tensors. */
typedef struct proxy_frame {
    struct proxy_frame *next;
    isolate_execute *request;  /* in the shared arguments, with the inputs and all dims of inputs after it */
    inlay_tensor_arg *outputs; /* in the shared results, with their dims after it */
    uint32_t input_count, output_count;
    proxy_copy *in, *out; /* [input_count], [output_count] */
    /* [output_count] the host's buffer of an output that the process has allocated; handle 0 = none */
    inlay_buffer *allocated;
} proxy_frame;

typedef struct proxy_instance {
    proxy_compiled *compiled;
    isolate_arena arena;
    isolate_specialize *request; /* in the shared arguments */
    inlay_output_plan *plans;    /* [output_count] in the shared results */
    uint32_t *kinds;             /* [output_count] inlay_output_plan.kind, as the host has been told */
    uint64_t workspace_bytes, workspace_alignment;
    uint32_t generation; /* guarded by compiled->lock, like remote */
    uint64_t remote;
    proxy_frame *frames; /* unused ones; guarded by process.lock */
} proxy_instance;

/* A call in progress. */
typedef struct proxy_call {
    isolate_channel *channel;
    uint32_t generation;
} proxy_call;

/* Starts the process if necessary, and takes a channel. */
INLAY_NODISCARD inlay_status proxy_begin(isolate_proxy *self, proxy_call *out, inlay_diag *diag);
void proxy_end(isolate_proxy *self, proxy_call *call);
/* Makes a call that ends when the provider's time limit has passed. wait may be NULL. */
INLAY_NODISCARD inlay_status proxy_make(isolate_proxy *self, proxy_call *call, uint32_t kind, const void *request,
                                        isolate_wait *wait, inlay_diag *diag);
/* Writes to the host's log what the process logs; for isolate_wait.callback. ctx is the proxy. */
inlay_status proxy_log(isolate_proxy *self, const isolate_callback *callback);

/* Frees the arguments of a call. */
void proxy_free_arguments(isolate_proxy *self, isolate_arena *arena);

/* Finds or copies the graph, and makes its constants present until proxy_leave_graph(). */
INLAY_NODISCARD inlay_status proxy_enter_graph(isolate_proxy *self, const inlay_graph *graph, isolate_graph **out,
                                               inlay_diag *diag);
/* keep: the graph gets another owner, which releases it with proxy_release_graph(). */
void proxy_leave_graph(isolate_proxy *self, isolate_graph *graph, bool keep);
void proxy_release_graph(isolate_proxy *self, isolate_graph *graph);

inlay_status proxy_assess(void *state, const inlay_assess_request *request, inlay_diag *diag);
inlay_status proxy_cost(void *state, const inlay_cost_request *request, inlay_cost *out_cost, inlay_diag *diag);
inlay_status proxy_cost_region(void *state, const inlay_region_cost_request *request, inlay_cost *out_cost,
                               inlay_diag *diag);
/* Writes to out the cookies that the process has for the offers of the host's cookies; offers that an earlier
 * generation of the process has made are assessed again. */
INLAY_NODISCARD inlay_status proxy_cookies(isolate_proxy *self, proxy_call *call, const uint64_t *cookies,
                                           uint32_t count, uint64_t *out, inlay_diag *diag);
/* The host uses none of the offers for the graph any more. Compiled regions keep theirs. */
void proxy_forget(void *state, const inlay_graph *graph);
/* Keeps the offers of the host's cookies until proxy_drop_offers() of the same. */
void proxy_hold_offers(isolate_proxy *self, const uint64_t *cookies, uint32_t count);
void proxy_drop_offers(isolate_proxy *self, const uint64_t *cookies, uint32_t count);
void proxy_free_records(isolate_proxy *self);

inlay_status proxy_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                           inlay_diag *diag);
void proxy_release_compiled(void *state, inlay_compiled *compiled);
inlay_status proxy_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                              inlay_instance **out_instance, inlay_diag *diag);
void proxy_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
/* Compiles the region and prepares the instance again if the call's generation of the process does not have them. */
INLAY_NODISCARD inlay_status proxy_revive(isolate_proxy *self, proxy_call *call, proxy_instance *instance,
                                          inlay_diag *diag);

/* Takes an unused frame of the instance, or creates one; NULL: out of memory. Before the first run, drops constants
 * that nothing reads any more. */
proxy_frame *proxy_take_frame(isolate_proxy *self, proxy_instance *instance, const inlay_exec_args *args);
void proxy_give_frame(isolate_proxy *self, proxy_instance *instance, proxy_frame *frame);
void proxy_free_frames(isolate_proxy *self, proxy_instance *instance);

inlay_status proxy_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                           const inlay_exec_args *args);
#endif
