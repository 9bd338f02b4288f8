/* The methods for regions of shared memory. */
#include "serve/grpc/grpc_internal.h"
#include "serve/request/shared_memory.h"

/* Appends the region as an entry of the reply's map. */
static void add_region(void *user, const char *name, const char *key, uint64_t offset, uint64_t bytes)
{
    struct call *call = user;
    Inference__SharedStatusReply reply = INFERENCE__SHARED_STATUS_REPLY__INIT;
    Inference__SharedRegionEntry entry = INFERENCE__SHARED_REGION_ENTRY__INIT, *list = &entry;
    Inference__SharedRegion region = INFERENCE__SHARED_REGION__INIT;

    region.name = entry.key = (char *)(uintptr_t)name;
    region.key = (char *)(uintptr_t)key;
    region.offset = offset;
    region.byte_size = bytes;
    entry.value = &region;
    reply.regions = &list;
    reply.n_regions = 1;
    call_pack(call, &reply.base);
}

/* Reads the message and calls a function of shared_memory.h with it. */
static void handle(struct call *call, const uint8_t *message, size_t bytes,
                   inlay_status (*run)(struct call *call, const Inference__SharedRegion *region, inlay_diag *diag))
{
    Inference__SharedRegion *region = call_unpack(call, &inference__shared_region__descriptor, message, bytes);
    inlay_diag diag = INLAY_DIAG_INIT;

    if (region == NULL)
        return;
    if (run(call, region, &diag) != INLAY_OK)
        call_fail_diag(call, &diag);
    call_free_unpacked(region);
}

static inlay_status run_status(struct call *call, const Inference__SharedRegion *region, inlay_diag *diag)
{
    return shared_memory_each(call->request.server->shared_memory, region->name, add_region, call, diag);
}

static inlay_status run_register(struct call *call, const Inference__SharedRegion *region, inlay_diag *diag)
{
    return shared_memory_register(call->request.server->shared_memory, region->name, region->key, region->offset,
                                  region->byte_size, diag);
}

static inlay_status run_unregister(struct call *call, const Inference__SharedRegion *region, inlay_diag *diag)
{
    return shared_memory_unregister(call->request.server->shared_memory, region->name, diag);
}

void grpc_shared_status(struct call *call, const uint8_t *message, size_t bytes)
{
    handle(call, message, bytes, run_status);
}

void grpc_shared_register(struct call *call, const uint8_t *message, size_t bytes)
{
    handle(call, message, bytes, run_register);
}

void grpc_shared_unregister(struct call *call, const uint8_t *message, size_t bytes)
{
    handle(call, message, bytes, run_unregister);
}

static inlay_status run_none(struct call *call, const Inference__SharedRegion *region, inlay_diag *diag)
{
    (void)call;
    (void)region;
    (void)diag;
    return INLAY_OK;
}

/* See answer_cuda_unregister(). */
void grpc_cuda_unregister(struct call *call, const uint8_t *message, size_t bytes)
{
    handle(call, message, bytes, run_none);
}
