/* Memory of a provider's own domains, with margins that show who writes outside. */
#include "check/bench.h"
#include "threads/fence.h"
#include <string.h>

enum { PATTERN = 0xca, LEAST_MARGIN = 256, MOST_MARGIN = 1 << 16 };

inlay_fence device_point(device_link *l)
{
    return (inlay_fence){ l->timeline, ++l->point };
}

inlay_status device_wait(const device_link *l, inlay_fence f, inlay_diag *diag)
{
    return (l->p->table->flags & INLAY_PROVIDER_ASYNC) != 0 ? fence_settle(f, diag) : INLAY_OK;
}

inlay_status device_copy(device_link *l, void *host, const inlay_buffer *device, uint64_t bytes, bool to_device,
                         inlay_diag *diag)
{
    const inlay_buffer here = { .handle = (uintptr_t)host, .bytes = bytes };
    const inlay_fence f = device_point(l);
    const inlay_status status = l->p->table->buffer_copy(l->p->state, NULL, to_device ? &here : device,
                                                         to_device ? device : &here, NULL, 0, f, diag);

    return status == INLAY_OK ? device_wait(l, f, diag) : status;
}

/* Offsets are multiples of the domain's alignment, and never 0 here: who forgets them is found out. */
static uint64_t margin_of(const loaded_provider *p, uint32_t domain)
{
    const uint64_t alignment =
        INLAY_AT(inlay_domain_info, p->table->domains, p->table->domain_stride, domain - p->first_domain)->alignment;
    uint64_t margin = alignment > 0 ? alignment : 1;

    while (margin < LEAST_MARGIN)
        margin += alignment > 0 ? alignment : 1;
    return margin <= MOST_MARGIN ? margin : alignment;
}

inlay_status device_tensor_alloc(const loaded_provider *p, uint32_t domain, uint64_t bytes, device_tensor *out,
                                 inlay_diag *diag)
{
    const uint64_t margin = margin_of(p, domain);
    const inlay_status status = p->table->buffer_alloc(p->state, domain, bytes + 2 * margin, &out->whole, diag);

    if (status != INLAY_OK) {
        out->whole.handle = 0;
        return status;
    }
    if (out->whole.handle == 0 || out->whole.bytes < bytes + 2 * margin || out->whole.domain != domain)
        return inlay_fail(diag, INLAY_INTERNAL, "buffer_alloc gave %llu bytes in domain %u instead of %llu in %u",
                          (unsigned long long)out->whole.bytes, out->whole.domain,
                          (unsigned long long)(bytes + 2 * margin), domain);
    out->whole.bytes = bytes + 2 * margin;
    out->given = out->whole;
    out->given.offset += margin;
    out->given.bytes = bytes;
    out->margin = margin;
    return INLAY_OK;
}

inlay_status device_tensor_fill(device_link *l, const device_tensor *t, const void *data, uint8_t fill, struct arena *a,
                                inlay_diag *diag)
{
    char *whole = arena_alloc(a, t->whole.bytes);

    if (whole == NULL)
        return no_memory(diag, "for the margins of a buffer");
    memset(whole, PATTERN, t->whole.bytes);
    memset(whole + t->margin, fill, t->given.bytes);
    if (data != NULL && t->given.bytes > 0)
        memcpy(whole + t->margin, data, t->given.bytes);
    return device_copy(l, whole, &t->whole, t->whole.bytes, true, diag);
}

inlay_status device_tensor_read(device_link *l, const device_tensor *t, struct arena *a, void **out_data,
                                bool *out_hurt, inlay_diag *diag)
{
    char *whole = arena_alloc(a, t->whole.bytes);
    inlay_status status;

    if (whole == NULL)
        return no_memory(diag, "to read a buffer back");
    memset(whole, 0, t->whole.bytes);
    status = device_copy(l, whole, &t->whole, t->whole.bytes, false, diag);
    *out_hurt = false;
    for (uint64_t i = 0; i < t->margin && status == INLAY_OK; i++)
        *out_hurt |= (uint8_t)whole[i] != PATTERN || (uint8_t)whole[t->whole.bytes - 1 - i] != PATTERN;
    *out_data = whole + t->margin;
    return status;
}
