/* Tensors in memory domains of the provider, with margins that detect writes out of bounds. */
#include "base/provider_calls.h"
#include "check/harness.h"
#include "threads/fence.h"
#include "inlay/check.h"
#include <string.h>

enum { PATTERN = 0xca, LEAST_MARGIN = 256, MOST_MARGIN = 1 << 16 };

inlay_fence device_point(device_link *link)
{
    return (inlay_fence){ link->timeline, ++link->point };
}

inlay_status device_wait(const device_link *link, inlay_fence fence, inlay_diag *diag)
{
    return (link->provider->table->flags & INLAY_PROVIDER_ASYNC) != 0 ? fence_wait_uncancelled(fence, diag) : INLAY_OK;
}

inlay_status device_copy(device_link *link, void *host, const inlay_buffer *device, uint64_t bytes, bool to_device,
                         inlay_diag *diag)
{
    const inlay_buffer here = { .handle = (uintptr_t)host, .bytes = bytes };
    const inlay_fence fence = device_point(link);
    const inlay_status status = call_copy(link->provider->table, link->provider->state, NULL,
                                          to_device ? &here : device, to_device ? device : &here, NULL, fence, diag);

    return status == INLAY_OK ? device_wait(link, fence, diag) : status;
}

/* The margin is the offset of the tensor in its buffer, so it is a multiple of the alignments of the domain and of the
 * tensor. It is never 0, to detect plugins that ignore offsets. */
static uint64_t margin_of(const loaded_provider *provider, uint32_t domain, uint64_t least)
{
    const uint64_t of_domain = INLAY_AT(inlay_domain_info, provider->table->domains, provider->table->domain_stride,
                                        domain - provider->first_domain)
                                   ->alignment;
    const uint64_t floor = least > 0 ? least : 1, alignment = of_domain > floor ? of_domain : floor;
    uint64_t margin = alignment;

    while (margin < LEAST_MARGIN)
        margin += alignment;
    return margin <= MOST_MARGIN ? margin : alignment;
}

inlay_status device_tensor_alloc(const loaded_provider *provider, uint32_t domain, uint64_t bytes, uint64_t alignment,
                                 device_tensor *out, inlay_diag *diag)
{
    const uint64_t margin = margin_of(provider, domain, alignment);
    const inlay_status status =
        call_alloc(provider->table, provider->state, provider->first_domain, domain, bytes + 2 * margin,
                   (buffer_use){ .lifetime = INLAY_LIFETIME_RUN, .alignment = alignment }, &out->whole, diag);

    if (status != INLAY_OK) {
        out->whole.handle = 0;
        return status;
    }
    if (out->whole.handle == 0 || out->whole.domain != domain)
        return inlay_fail(diag, INLAY_INTERNAL, "buffer_alloc gave handle %llu in domain %u instead of domain %u",
                          (unsigned long long)out->whole.handle, out->whole.domain, domain);
    out->given = out->whole;
    out->given.offset += margin;
    out->given.bytes = bytes;
    out->margin = margin;
    return INLAY_OK;
}

inlay_status device_tensor_fill(device_link *link, const device_tensor *tensor, const void *data, uint8_t fill,
                                struct arena *arena, inlay_diag *diag)
{
    char *whole = arena_alloc(arena, tensor->whole.bytes);

    INLAY_CHECK(tensor->whole.bytes == tensor->given.bytes + 2 * tensor->margin);
    if (whole == NULL)
        return no_memory(diag, "for the margins of a buffer");
    memset(whole, PATTERN, tensor->whole.bytes);
    memset(whole + tensor->margin, fill, tensor->given.bytes);
    if (data != NULL && tensor->given.bytes > 0)
        memcpy(whole + tensor->margin, data, tensor->given.bytes);
    return device_copy(link, whole, &tensor->whole, tensor->whole.bytes, true, diag);
}

inlay_status device_tensor_read(device_link *link, const device_tensor *tensor, struct arena *arena, void **out_data,
                                bool *out_damaged, inlay_diag *diag)
{
    char *whole = arena_alloc(arena, tensor->whole.bytes);
    inlay_status status;

    INLAY_CHECK(tensor->whole.bytes == tensor->given.bytes + 2 * tensor->margin);
    if (whole == NULL)
        return no_memory(diag, "to read a buffer back");
    memset(whole, 0, tensor->whole.bytes);
    status = device_copy(link, whole, &tensor->whole, tensor->whole.bytes, false, diag);
    *out_damaged = false;
    for (uint64_t i = 0; i < tensor->margin && status == INLAY_OK; i++)
        *out_damaged |= (uint8_t)whole[i] != PATTERN || (uint8_t)whole[tensor->whole.bytes - 1 - i] != PATTERN;
    *out_data = whole + tensor->margin;
    return status;
}
