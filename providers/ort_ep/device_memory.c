/* The memory of the library's device as a domain of inlay: buffers in it, which regions pass to each other, and copies.
 * A buffer's handle is the address that the library's allocator returned. As ONNX Runtime does with its memory
 * patterns, inlay adds offsets to it. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>

OrtStatus *ep_memory_open(ep_state *state)
{
    const OrtEpDevice *device = state->library.device;
    const OrtMemoryDevice *host = ort_MemoryInfo_GetMemoryDevice(&ort_cpu_memory), *own;
    OrtEpFactory *factory = device->factory;
    ep_memory *memory = &state->memory;

    if (device->memory == NULL || device->memory->device_type == 0)
        return NULL;
    memory->info = device->memory;
    (void)snprintf(state->domain_name, sizeof state->domain_name, "%.80s.device", state->name);
    own = ort_MemoryInfo_GetMemoryDevice(memory->info);
    if (factory->CreateDataTransfer != NULL)
        ORT_TRY(factory->CreateDataTransfer(factory, &memory->transfer));
    memory->has_copies = memory->transfer != NULL && memory->transfer->CanCopy(memory->transfer, host, own) &&
                         memory->transfer->CanCopy(memory->transfer, own, host);
    memory->has_inner_copies = memory->has_copies && memory->transfer->CanCopy(memory->transfer, own, own);
    if (factory->CreateAllocator != NULL)
        ORT_TRY(factory->CreateAllocator(factory, memory->info, NULL, &memory->allocator));
    return NULL;
}

void ep_memory_close(ep_state *state)
{
    ep_memory *memory = &state->memory;

    if (memory->transfer != NULL)
        memory->transfer->Release(memory->transfer);
    if (memory->allocator != NULL)
        state->library.device->factory->ReleaseAllocator(state->library.device->factory, memory->allocator);
    *memory = (ep_memory){ 0 };
}

bool ep_memory_is_domain(const ep_state *state)
{
    return state->memory.allocator != NULL && state->memory.has_copies;
}

inlay_status ep_buffer_alloc(void *state_, const inlay_alloc_request *request, inlay_buffer *out, inlay_diag *diag)
{
    ep_state *state = state_;
    OrtAllocator *allocator = state->memory.allocator;
    const ep_state *before;
    void *data = NULL;
    size_t bytes;

    if (!ep_memory_is_domain(state))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "execution provider %s computes in host memory", state->name);
    if (!__builtin_add_overflow(request->bytes, request->alignment - 1, &bytes)) {
        before = ep_enter(state);
        data = allocator->Alloc(allocator, bytes);
        (void)ep_enter(before);
    }
    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "execution provider %s has no memory of %llu bytes", state->name,
                          (unsigned long long)request->bytes);
    out->handle = (uintptr_t)data;
    out->offset = -out->handle & (request->alignment - 1);
    out->domain = request->domain;
    return INLAY_OK;
}

void ep_buffer_free(void *state_, const inlay_free_request *request)
{
    ep_state *state = state_;
    OrtAllocator *allocator = state->memory.allocator;
    const ep_state *before = ep_enter(state);

    allocator->Free(allocator, (void *)(uintptr_t)request->buffer->handle);
    (void)ep_enter(before);
}

/* The bytes of a buffer as a tensor. */
static OrtStatus *wrap_bytes(const ep_state *state, const inlay_buffer *buffer, uint64_t bytes, OrtValue **out)
{
    const int64_t count = (int64_t)bytes;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    inlay_status status = inlay_value_borrow(INLAY_UINT8, 1, &count, inlay_buffer_host(buffer), bytes, &value, &diag);

    if (status != INLAY_OK)
        return ort_from(status, &diag);
    ORT_TRY(ort_value_wrap(value, out));
    if (buffer->domain != INLAY_DOMAIN_HOST)
        (*out)->memory = state->memory.info;
    return NULL;
}

/* Copies between a buffer of the host and one of the device, or between two buffers of a device that copies within its
 * memory. */
static OrtStatus *copy_directly(const ep_state *state, const inlay_buffer *source, const inlay_buffer *target,
                                uint64_t bytes)
{
    OrtDataTransferImpl *transfer = state->memory.transfer;
    OrtValue *from = NULL, *to = NULL;
    OrtStatus *failed = wrap_bytes(state, source, bytes, &from);

    if (failed == NULL)
        failed = wrap_bytes(state, target, bytes, &to);
    if (failed == NULL) {
        const OrtValue *constant = from;

        failed = transfer->CopyTensors(transfer, &constant, &to, NULL, 1);
    }
    ort_ReleaseValue(from);
    ort_ReleaseValue(to);
    return failed;
}

static OrtStatus *copy(const ep_state *state, const inlay_buffer *source, const inlay_buffer *target)
{
    const uint64_t bytes = source->bytes < target->bytes ? source->bytes : target->bytes;
    const bool within = source->domain != INLAY_DOMAIN_HOST && target->domain != INLAY_DOMAIN_HOST;
    inlay_buffer between;
    OrtStatus *failed;

    if (bytes == 0)
        return NULL;
    if (!within || state->memory.has_inner_copies)
        return copy_directly(state, source, target, bytes);
    between = (inlay_buffer){ .handle = (uintptr_t)malloc((size_t)bytes), .bytes = bytes, .domain = INLAY_DOMAIN_HOST };
    if (between.handle == 0)
        return ort_no_memory();
    failed = copy_directly(state, source, &between, bytes);
    if (failed == NULL)
        failed = copy_directly(state, &between, target, bytes);
    free(inlay_buffer_host(&between));
    return failed;
}

inlay_status ep_buffer_copy(void *state_, const inlay_copy_request *request, inlay_diag *diag)
{
    const ep_state *state = state_, *before = ep_enter(state);
    OrtStatus *failed = NULL;

    for (uint32_t i = 0; failed == NULL && i < request->copy_count; i++) {
        const inlay_copy *one = INLAY_AT(inlay_copy, request->copies, request->copy_stride, i);

        failed = copy(state, &one->source, &one->target);
    }
    (void)ep_enter(before);
    return failed == NULL ? INLAY_OK : ep_fail(state, "copying", failed, INLAY_INTERNAL, diag);
}
