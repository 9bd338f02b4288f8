/* region.h - a region: nodes that a library has compiled to one, or the kernel of one node. For region.c, which
 * compiles it, and run.c. */
#ifndef ORT_EP_REGION_H
#define ORT_EP_REGION_H
#include "ort_ep/provider.h"

typedef struct ep_region {
    ep_state *state;
    OrtEp *ep;
    char name[96]; /* of the fused node */
    ort_ports ports;
    OrtNodeComputeInfo *fused; /* NULL: a kernel */
    void *fused_state;
    ep_single single;    /* the kernel */
    ep_node_name *nodes; /* [node_count] */
    size_t node_count;
    OrtValue **constants;    /* [ports.info->input_count] in the memory of the device; NULL: none */
    OrtAllocator *allocator; /* of the memory that it computes in; NULL: the host's */
    bool owns_allocator;     /* otherwise it is that of the provider */
    bool *host_outputs;      /* [ports.info->output_count] a kernel writes them in host memory */
    OrtSyncStream *stream;   /* of the device; NULL: none */
    ep_signature signature;
    uint32_t *outputs; /* [output_count] values of the graph */
    uint32_t output_count;
    bool is_concurrent; /* runs may overlap */
    pthread_mutex_t serial;
} ep_region;

/* A region at concrete shapes. */
typedef struct ep_instance {
    size_t price; /* where its times are kept */
} ep_instance;

/* Copies a tensor between the memories of the host and the device, on the stream of the region. */
OrtStatus *ep_region_copy(const ep_region *region, const OrtValue *from, OrtValue *to);
/* A copy of a tensor in the memory of the device. */
OrtStatus *ep_region_place(const ep_region *region, const OrtValue *value, OrtValue **out);
#endif
